/**
 * How long to wait before trying again. Pure arithmetic: randomness is an argument.
 *
 * @module
 */

/** The longest wait between two attempts, in ms. */
export const CAP = 30_000;

/** How long a connection must have lasted before its loss counts as the first failure again, in ms. */
export const STABLE = 10_000;

/**
 * Upper bound of the wait before attempt `attempt` (0 is the first retry), in ms.
 *
 * @param {number} attempt
 * @param {number} [base]
 */
export function ceiling(attempt, base = 500) {
  return Math.min(CAP, base * 2 ** Math.min(attempt, 20));
}

/**
 * Full jitter: anything from nothing to the ceiling, so that clients that lost a server together do not come back so.
 *
 * @param {number} attempt
 * @param {number} random  in [0, 1)
 * @param {number} [base]
 */
export function delay(attempt, random, base = 500) {
  return Math.floor(random * ceiling(attempt, base));
}
