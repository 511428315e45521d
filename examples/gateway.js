/**
 * A reverse proxy that limits requests by tenant, by address and by route, on
 * several threads that share one table.
 *
 *   node examples/gateway.js --help
 */
import { parseArgs } from "node:util";
import { readConfig } from "./gateway/config.js";
import { runDemo } from "./gateway/demo.js";
import { openGateway } from "./gateway/gateway.js";

const USAGE = `Usage: node examples/gateway.js [options]

  --serve <file>  serves by a configuration (see examples/gateway/config.json)
                  until Ctrl-C; SIGHUP reads the file again

Without it, starts a gateway and an upstream on the loopback, measures what the
limits cost, asks for more than the policies allow, and ends with a verdict;
exits with 1 if a tenant or a route got more, or less, than its policy says.

  --seconds <n>   how long to ask for more (default 10)
  --workers <n>   how many worker threads (default 4)
  --help          this text`;

/** @param {string} file */
async function serve(file) {
  const gateway = await openGateway(await readConfig(file), log);
  log(
    `serving on port ${gateway.port}${
      gateway.adminPort ? `, telling on port ${gateway.adminPort}` : ""
    }, process ${process.pid}`,
  );

  process.on("SIGHUP", async () => {
    try {
      gateway.reload(await readConfig(file));
      log(`${file} is in force`);
    } catch (error) {
      log(`${file} was refused, the former configuration stays in force: ${error.message}`);
    }
  });
  let isStopping = false;
  // `on`, not `once`: under npm a Ctrl-C arrives twice, from the terminal and from npm.
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

function log(message) {
  console.log(`${new Date().toISOString()} ${message}`);
}

/** The options, checked; ends the process for `--help` and for what it does not understand. */
function readOptions() {
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
    throw new RangeError(`"seconds" expected a number above 0 up to 3600, got ${values.seconds}`);
  }
  if (!(Number.isInteger(workers) && workers >= 1 && workers <= 64)) {
    throw new RangeError(`"workers" expected an integer from 1 to 64, got ${values.workers}`);
  }
  return { ...values, seconds, workers };
}

try {
  const { serve: file, help, ...demo } = readOptions();
  if (help) console.log(USAGE);
  else if (file) await serve(file);
  else process.exitCode = await runDemo(demo);
} catch (error) {
  console.error(`${error.message}\n\nnode examples/gateway.js --help tells the options`);
  process.exit(2);
}
