/**
 * A reverse proxy that limits requests by tenant, client address and route. Its
 * worker threads share one table of limits.
 *
 *   node build/examples/gateway.js --help
 */
import { parseArgs } from "node:util";
import { readConfig } from "./gateway/config.js";
import { runDemo } from "./gateway/demo.js";
import { openGateway } from "./gateway/gateway.js";

const USAGE = `Usage: node build/examples/gateway.js [options]

  --serve <file>  serve with this configuration until Ctrl-C; SIGHUP reloads it
                  (example: examples/gateway/config.json)

Without --serve, run the demo: start a gateway and an upstream on the loopback
interface, measure what the limits cost, send more requests than the policies
allow, and print a verdict. The exit code is 1 if a tenant or a route got more,
or less, than its policy says.

  --seconds <n>   how long the demo sends requests (default 10)
  --workers <n>   worker threads of the demo (default 4)
  --help          print this text`;

async function serve(file: string): Promise<void> {
  const gateway = await openGateway(await readConfig(file), log);
  const admin = gateway.adminPort === undefined ? "" : `, admin on port ${gateway.adminPort}`;
  log(`serving on port ${gateway.port}${admin}, process ${process.pid}`);

  process.on("SIGHUP", async () => {
    try {
      gateway.reload(await readConfig(file));
      log(`${file} reloaded`);
    } catch (error) {
      log(`${file} rejected, the current configuration stays in force: ${(error as Error).message}`);
    }
  });
  let isStopping = false;
  // `on`, not `once`: under npm, Ctrl-C sends the signal twice, from the terminal and from npm.
  for (const signal of ["SIGINT", "SIGTERM"]) {
    process.on(signal, async () => {
      if (isStopping) return;
      isStopping = true;
      log(`${signal}: stopping`);
      await gateway.close();
      log("stopped");
    });
  }
}

function log(message: string): void {
  console.log(`${new Date().toISOString()} ${message}`);
}

/** The command line, checked. Throws for an unknown option or a wrong value. */
function readOptions(): { serve: string | undefined; help: boolean; seconds: number; workers: number } {
  const { values } = parseArgs({
    options: {
      serve: { type: "string" },
      seconds: { type: "string", default: "10" },
      workers: { type: "string", default: "4" },
      help: { type: "boolean", default: false },
    },
  });
  const seconds = Number(values.seconds);
  const workers = Number(values.workers);
  if (!(seconds > 0 && seconds <= 3600)) {
    throw new RangeError(`"seconds" expected a number above 0, up to 3600, got ${values.seconds}`);
  }
  if (!(Number.isInteger(workers) && workers >= 1 && workers <= 64)) {
    throw new RangeError(`"workers" expected an integer from 1 to 64, got ${values.workers}`);
  }
  return { serve: values.serve, help: values.help, seconds, workers };
}

try {
  const { serve: file, help, ...demo } = readOptions();
  if (help) console.log(USAGE);
  else if (file) await serve(file);
  else process.exitCode = await runDemo(demo);
} catch (error) {
  console.error(`${(error as Error).message}\n\nOptions: node build/examples/gateway.js --help`);
  process.exit(2);
}
