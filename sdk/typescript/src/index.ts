/** The client of a Windlass server, and a builder for workflows. The worker is in `@windlass/client/worker`. */

export * from "./client.js";
export * from "./errors.js";
export * from "./generated/operations.js";
export { Pages, type Page } from "./pages.js";
export { type ClientOptions, type RequestOptions } from "./request.js";
export { type StreamEvent } from "./stream.js";
export * from "./workflow.js";
