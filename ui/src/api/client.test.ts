import { describe, expect, it } from "vitest";
import { key, keyFromLink } from "./client";

describe("the key in a link", () => {
  it("is kept, and leaves the address", () => {
    history.replaceState(null, "", "/runs?status=failed#key=a-key_of-sixteen");
    keyFromLink();
    expect(key.get()).toBe("a-key_of-sixteen");
    expect(location.pathname + location.search + location.hash).toBe("/runs?status=failed");
  });

  it("is not lost by a link without one", () => {
    history.replaceState(null, "", "/runs#part");
    keyFromLink();
    expect(key.get()).toBe("a-key_of-sixteen");
    expect(location.hash).toBe("#part");
  });
});
