declare module "autocannon" {
  interface Options {
    url: string;
    connections: number;
    amount: number;
    sampleInt: number;
  }
  interface Run extends PromiseLike<unknown> {
    on(event: "response", listener: (client: unknown, status: number) => void): this;
  }
  export default function autocannon(options: Options): Run;
}
