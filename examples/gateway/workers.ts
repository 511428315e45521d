/** The gateway's worker threads: starts them behind one port and replaces those that die. */
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { type Balancer, CAN_SHARE_PORT, openBalancer } from "./balancer.js";
import type { CountsByName } from "./redis.js";
import type { FromWorker, Settings, ToWorker, WorkerData } from "./worker.js";

/** Pause before a dead worker is replaced, so that one that always fails does not keep the gateway busy. */
const RESTART_MS = 200;

export interface WorkersOptions {
  /** Receives what the workers counted of their calls to Redis. */
  onCounts: (counts: CountsByName) => void;
  log: (message: string) => void;
}

export class Workers {
  /** The port of each worker that listens. */
  readonly ports = new Map<Worker, number>();
  readonly #options: WorkersOptions;
  readonly #balancer: Balancer | undefined;
  #settings: Settings;
  #port: number;
  #isStopping = false;

  private constructor(settings: Settings, balancer: Balancer | undefined, options: WorkersOptions) {
    this.#settings = settings;
    this.#balancer = balancer;
    this.#options = options;
    this.#port = balancer?.port ?? settings.config.listen.port;
  }

  /** Resolves when all workers listen. */
  static async open(settings: Settings, options: WorkersOptions): Promise<Workers> {
    const { listen, workers: count } = settings.config;
    const balancer = CAN_SHARE_PORT ? undefined : await openBalancer(listen);
    const workers = new Workers(settings, balancer, options);
    // With port 0, the system chooses the first worker's port; the others share it.
    const first = await workers.#start();
    workers.#port = balancer?.port ?? first;
    await Promise.all(Array.from({ length: count - 1 }, () => workers.#start()));
    return workers;
  }

  /** The public port. */
  get port(): number {
    return this.#port;
  }

  get isReady(): boolean {
    return !this.#isStopping && this.ports.size > 0;
  }

  /** Gives all workers, and those that are starting, another configuration or table. */
  update(settings: Settings): void {
    this.#settings = settings;
    for (const worker of this.ports.keys()) post(worker, settings);
  }

  /** Accepts no more connections; resolves when all workers have ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    this.#balancer?.stop();
    const ended = [...this.ports.keys()].map((worker) => once(worker, "exit"));
    for (const worker of this.ports.keys()) post(worker, "stop");
    await Promise.all(ended);
    this.#balancer?.cut();
  }

  /** Starts one worker; resolves to its port when it listens. */
  async #start(): Promise<number> {
    const settings = this.#settings;
    const workerData: WorkerData = {
      ...settings,
      listen: this.#balancer
        ? { host: "127.0.0.1", port: 0 }
        : { host: settings.config.listen.host, port: this.#port },
      hasBalancer: this.#balancer !== undefined,
    };
    const worker = new Worker(new URL("./worker.js", import.meta.url), { workerData });
    const ended = once(worker, "exit").then(() => {
      throw new Error("it ended before it listened");
    });
    const [{ port }] = await Promise.race([once(worker, "message"), ended]) as [{ port: number }];
    ended.catch(() => {});
    this.#watch(worker, port);
    // What changed while the worker was starting.
    if (this.#isStopping) post(worker, "stop");
    if (settings !== this.#settings) post(worker, this.#settings);
    return port;
  }

  #watch(worker: Worker, port: number): void {
    const { log, onCounts } = this.#options;
    const spread = (): void => this.#balancer?.spreadOver([...this.ports.values()]);
    this.ports.set(worker, port);
    spread();
    worker.on("message", (message: FromWorker) => {
      if ("counts" in message) onCounts(message.counts);
    });
    worker.on("error", (error) => log(`worker ${worker.threadId} failed: ${error.stack}`));
    worker.once("exit", () => {
      this.ports.delete(worker);
      spread();
      if (!this.#isStopping) void this.#replace();
    });
  }

  async #replace(): Promise<void> {
    const { log } = this.#options;
    log(`a worker died, ${this.ports.size} left; starting another`);
    for (;;) {
      await sleep(RESTART_MS);
      if (this.#isStopping) return;
      try {
        await this.#start();
        return;
      } catch (error) {
        log(`a worker could not start: ${(error as Error).message}`);
      }
    }
  }
}

function post(worker: Worker, message: ToWorker): void {
  worker.postMessage(message);
}
