// Formats numbers, durations and times.

const KIBIBYTE = 1024;
const MEBIBYTE = 1024 * KIBIBYTE;

/** A number with about three significant digits. */
export function number(value) {
  const size = Math.abs(value);
  const decimals = size >= 100 ? 0 : size >= 10 ? 1 : 2;
  return String(Number(value.toFixed(decimals)));
}

/** A value in thousandths, with its unit. */
export function quantity(milli, unit) {
  const value = milli / 1000;
  switch (unit) {
    case "percent": return `${number(value)}%`;
    case "bytes": return bytes(value);
    case "quantity": return Number.isInteger(value) ? String(value) : `${number(milli)}m`;
    default: return number(value);
  }
}

/** Bytes in mebibytes, or in kibibytes or bytes if they are less than one mebibyte. */
function bytes(value) {
  const size = Math.abs(value);
  if (size >= MEBIBYTE) {
    return `${number(value / MEBIBYTE)}Mi`;
  }
  return size >= KIBIBYTE ? `${number(value / KIBIBYTE)}Ki` : number(value);
}

/** A load with its unit. `unit` is null for a load in the unit of a custom metric. */
export function load(value, unit) {
  switch (unit) {
    case "cores": return `${number(value)} cores`;
    case "bytes": return quantity(value * 1000, "bytes");
    default: return number(value);
  }
}

/** The unit in which the labels of an axis are round, in thousandths: mebibytes for bytes. */
export const axisUnit = (unit) => (unit === "bytes" ? 1000 * MEBIBYTE : 1000);

/** A duration in one or two units: `45s`, `3m 20s`, `2h 5m`, `3d 4h`. */
export function duration(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  if (first < 0) {
    return "0s";
  }
  const [name, size] = units[first];
  const rest = units[first + 1];
  const more = rest === undefined ? 0 : Math.floor((seconds % size) / rest[1]);
  const text = `${Math.floor(seconds / size)}${name}`;
  return more === 0 ? text : `${text} ${more}${rest[0]}`;
}

/** The time since `time`: `3m 20s ago`. */
export function ago(time, now) {
  return `${duration(now - Date.parse(time))} ago`;
}

/** The time of day, in the zone of the browser. */
export function timeOfDay(milliseconds) {
  return new Date(milliseconds).toLocaleTimeString([], { hour12: false });
}

/** The time of day, with the date if it is more than half a day before `now`. */
export function pointInTime(milliseconds, now) {
  const date = now - milliseconds > 43_200_000 ? `${new Date(milliseconds).toLocaleDateString()} ` : "";
  return date + timeOfDay(milliseconds);
}

/** An amount with its noun, in the singular or plural. */
export const count = (amount, noun) => `${amount} ${noun}${amount === 1 ? "" : "s"}`;

/** The states, most urgent first, with their names. */
export const STATES = {
  failing: "Failing",
  notHandled: "Not handled",
  fallback: "Fallback",
  atMaximum: "At maximum",
  off: "Off",
  paused: "Paused",
  dryRun: "Dry run",
  new: "No status",
  oldStatus: "Old status",
  metricMissing: "Metric missing",
  waitingForPods: "Waiting for pods",
  scaling: "Scaling",
  rateLimited: "Rate limited",
  stabilizing: "Stabilizing",
  atMinimum: "At minimum",
  steady: "Steady",
};
