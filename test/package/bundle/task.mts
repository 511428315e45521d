// What the bundled app's pool runs.

export default (n: number): number => 2 * n;
