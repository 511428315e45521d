// What the bundled app's pool runs.

export default (n) => 2 * n;
