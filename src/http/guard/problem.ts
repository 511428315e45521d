// The bodies of refusals: problem details (RFC 9457) of the types that
// draft-ietf-httpapi-ratelimit-headers-11 defines for limits.

/**
 * The problem types of the draft: the client has used its quota up, the service has
 * less capacity, or the usage looks abnormal.
 */
export type ProblemType = "quota-exceeded" | "temporary-reduced-capacity" | "abnormal-usage-detected";

interface Problem {
  readonly status: number;
  readonly title: string;
}

export const problems: Readonly<Record<ProblemType, Problem>> = {
  "quota-exceeded": { status: 429, title: "Request cannot be satisfied as assigned quota has been exceeded" },
  "temporary-reduced-capacity": {
    status: 503,
    title: "Request cannot be satisfied due to temporary server capacity constraints",
  },
  "abnormal-usage-detected": {
    status: 429,
    title: "Request not satisfied due to detection of abnormal request pattern",
  },
};

export const PROBLEM_JSON = "application/problem+json";

/** The body of a refusal by the limiter of this name. */
export function problemBody(type: ProblemType, policy: string): string {
  const { title, status } = problems[type];
  return JSON.stringify({
    type: `https://iana.org/assignments/http-problem-types#${type}`,
    title,
    status,
    "violated-policies": [policy],
  });
}

/** The body of a refusal by the deny list. */
export const FORBIDDEN = JSON.stringify({ type: "about:blank", title: "Forbidden", status: 403 });
