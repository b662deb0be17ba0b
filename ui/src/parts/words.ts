/** Formatting of times, durations, numbers and ids. Times use the clock and the locale of the browser. */
const UNITS: [number, string][] = [
  [86_400_000, "d"],
  [3_600_000, "h"],
  [60_000, "m"],
  [1000, "s"],
];

/** Format a duration: 450 ms, 3.2 s, 4m 10s, 2h 5m, 3d 4h. */
export function span(ms: number | null | undefined): string {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const at = UNITS.findIndex(([size]) => ms >= size);
  const [size, unit] = UNITS[at]!;
  const [small, name] = UNITS[at + 1]!;
  const rest = Math.floor((ms % size) / small);
  return `${Math.floor(ms / size)}${unit}${rest ? ` ${rest}${name}` : ""}`;
}

export function between(from: string | null | undefined, to: string | null | undefined, now: number): number | null {
  if (!from) return null;
  return Math.max(0, (to ? Date.parse(to) : now) - Date.parse(from));
}

/** Format a time relative to now: "3 min ago", "in 2 h". */
export function relative(when: string, now: number): string {
  const ms = Date.parse(when) - now;
  const size = Math.abs(ms);
  if (size < 5000) return "now";
  const [unit, name] = UNITS.find(([unit]) => size >= unit) ?? [1000, "s"];
  const count = `${Math.floor(size / unit)} ${name === "m" ? "min" : name}`;
  return ms < 0 ? `${count} ago` : `in ${count}`;
}

/** Format the time until a moment: "in 12 s", "in 4m 10s"; "now" once it has passed. */
export function countdown(when: string, now: number): string {
  const seconds = Math.ceil((Date.parse(when) - now) / 1000);
  if (seconds <= 0) return "now";
  return `in ${seconds < 60 ? `${seconds} s` : span(seconds * 1000)}`;
}

/** Format the time of day, with the date unless it is today: 14:05:33, or 17 Nov, 14:05. */
export function moment(when: string, now: number): string {
  const at = new Date(when);
  if (at.toDateString() === new Date(now).toDateString()) return at.toLocaleTimeString(undefined, { timeStyle: "medium" });
  const year = at.getFullYear() === new Date(now).getFullYear() ? {} : { year: "numeric" as const };
  return at.toLocaleString(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", ...year });
}

export function exact(when: string): string {
  return new Date(when).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** Format the local time of day, to the millisecond. */
export function clock(when: string): string {
  return new Date(when).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });
}

export function percent(share: number): string {
  return share > 0.995 && share < 1 ? "> 99 %" : `${Math.round(share * 100)} %`;
}

export function count(n: number): string {
  return n.toLocaleString("en");
}

/** Format a size: 512 B, 1.5 KiB, 12 MiB. */
export function bytes(n: number): string {
  const units = ["B", "KiB", "MiB", "GiB"];
  const at = Math.min(units.length - 1, n < 1 ? 0 : Math.floor(Math.log(n) / Math.log(1024)));
  const share = n / 1024 ** at;
  return `${share.toFixed(at === 0 || share >= 10 ? 0 : 1)} ${units[at]}`;
}

/** Shorten an id to its end: the beginning is a timestamp and hardly differs. */
export function short(id: string): string {
  return id.length > 12 ? `…${id.slice(-8)}` : id;
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Return whether a string is a complete id. */
export function isId(text: string): boolean {
  return /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/i.test(text.trim());
}

/** Quote a string for a shell. */
export function quoted(text: string): string {
  return /^[\w./:@=+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
