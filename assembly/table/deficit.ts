// How much a slot lacks of what it may hold: which key loses its slot to a new one.

import { algorithmIn, BUCKET, BucketSegment, FIXED_WINDOW, FLAG_UNLIMITED, isCurrent } from "../layout/policy";
import { isLineKind, LEASE, LIMITS, Policy, RING, RingSegment, Segment, segmentOf } from "../layout/policy";
import { SLIDING_COUNTER, versionOf, WARM_UP, WarmUpSegment, WindowSegment } from "../layout/policy";
import { limitsDeficit } from "../lines/limits";
import { ringDeficit } from "../lines/ring";
import { warmUpDeficit } from "../lines/warm-up";
import { bucketDeficit } from "../words/bucket";
import { leaseDeficit } from "../words/lease";
import { slidingDeficit } from "../words/sliding";
import { windowDeficit } from "../words/window";

/**
 * The deficit of a state word, or of the line in the scratch: 0 or less is fresh,
 * 1 is empty, more is in debt.
 */
export function deficitOf(policy: Policy, word: u64, now: i64): f64 {
  let tries = 0;
  while (true) {
    const version = versionOf(policy);
    const segment = segmentOf(policy, version);
    if (segment.flags & FLAG_UNLIMITED) return 0;
    const deficit = deficitIn(policy, segment, word, now);
    // `deficitIn` has advanced the copy of a line, so a line is judged once.
    if (isCurrent(policy, version) || isLineKind(segment.flags) || ++tries > 100) return deficit;
  }
}

function deficitIn(policy: Policy, segment: Segment, word: u64, now: i64): f64 {
  switch (algorithmIn(segment.flags)) {
    case BUCKET:
      return bucketDeficit(changetype<BucketSegment>(segment), word, now);
    case FIXED_WINDOW:
      return windowDeficit(changetype<WindowSegment>(segment), word, now);
    case SLIDING_COUNTER:
      return slidingDeficit(changetype<WindowSegment>(segment), word, now);
    case LEASE:
      return leaseDeficit(word, now);
    case RING:
      return ringDeficit(changetype<RingSegment>(segment), now);
    case LIMITS:
      return limitsDeficit(policy, now);
    case WARM_UP:
      return warmUpDeficit(changetype<WarmUpSegment>(segment), now);
    default:
      unreachable();
  }
  return 0;
}
