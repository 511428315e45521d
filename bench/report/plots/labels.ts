// Names at the ends of lines, moved apart so that none covers another.

import * as Plot from "@observablehq/plot";
import { LABEL_PX } from "./shape.js";

/** From the end of an axis to the names beside it. */
export const LEADER_PX = 26;

interface Block {
  indices: number[];
  middle: number;
}

/**
 * Places for labels `gapPx` apart, each as near to its own place as its neighbours
 * allow: labels that would overlap form a block around their common middle.
 */
function spread(places: number[], gapPx: number): Float64Array {
  const blocks: Block[] = [];
  for (const index of places.map((_, i) => i).sort((a, b) => places[a] - places[b])) {
    let block: Block = { indices: [index], middle: places[index] };
    for (;;) {
      const above = blocks.at(-1);
      if (above === undefined) break;
      const size = above.indices.length + block.indices.length;
      if (block.middle - above.middle >= (gapPx * size) / 2) break;
      block = {
        indices: [...above.indices, ...block.indices],
        middle: (above.middle * above.indices.length + block.middle * block.indices.length) / size,
      };
      blocks.pop();
    }
    blocks.push(block);
  }
  const spreadOut = new Float64Array(places.length);
  for (const { indices, middle } of blocks) {
    indices.forEach((index, i) => (spreadOut[index] = middle + gapPx * (i - (indices.length - 1) / 2)));
  }
  return spreadOut;
}

/** Plot passes computed channels, whose values are numbers. */
const valuesOf = (channel: unknown): ArrayLike<number> => (channel as { value: ArrayLike<number> }).value;

/** Moves the ends `x` and `y` of a mark (by the names of its channels) to the right of the frame, to places apart. */
function moved<T extends object>(options: T, x: string, y: string, insetPx: number): T {
  const initialize: Plot.InitializerFunction = (data, facets, channels, scales, dimensions) => {
    const scale = scales.y as unknown as (value: number) => number;
    const places = spread(Array.from(valuesOf(channels[y]), scale), LABEL_PX);
    const { width, marginRight } = dimensions as { width: number; marginRight: number };
    return {
      data,
      facets,
      channels: { [x]: { value: places.map(() => width - marginRight + LEADER_PX - insetPx) }, [y]: { value: places } },
    };
  };
  return Plot.initializer(options, initialize) as T;
}

/** Moves the labels of a mark. */
export function apart<T extends object>(options: T): T {
  return moved(options, "x", "y", 0);
}

/** Lines to those labels. */
export function leaders<T extends object>(options: T): T {
  return moved(options, "x2", "y2", 3);
}
