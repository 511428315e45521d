// A line on stderr for each case. In a terminal only the last one stays, with the
// time that is left.

export interface Progress {
  begin(id: string, name: string): void;
  end(): void;
}

export function progressOf(total: number): Progress {
  const startMs = performance.now();
  const seconds = (ms: number): string => `${(ms / 1000).toFixed(0)} s`;
  let begun = 0;
  let done = 0;
  return {
    begin(id, name) {
      begun++;
      const elapsedMs = performance.now() - startMs;
      const rest = done > 0 ? `, about ${seconds((elapsedMs / done) * (total - done))} to go` : "";
      const line = `${id}: ${name} (${begun} of ${total}, ${seconds(elapsedMs)}`;
      process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${line}${rest})` : `${line})\n`);
    },
    end() {
      done++;
      if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
    },
  };
}
