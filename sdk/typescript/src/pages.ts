/** Paginated lists. */

/** A page of a list. `next` is the cursor of the next page; it is undefined on the last page. */
export interface Page<T> {
  readonly items: T[];
  readonly next: string | undefined;
}

/** A paginated list: iterate over all items with `for await`, or get a single `page()`. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #load: (cursor: string | undefined) => Promise<Page<T>>;

  constructor(load: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#load = load;
  }

  /** Return the first page, or the page at the cursor `next` of an earlier page. */
  async page(next?: string): Promise<Page<T>> {
    return await this.#load(next);
  }

  /** Return all items, at most `limit` of them. */
  async all(limit = Infinity): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) {
      if (items.length >= limit) break;
      items.push(item);
    }
    return items;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    let next: string | undefined;
    do {
      const page = await this.#load(next);
      yield* page.items;
      next = page.next;
    } while (next !== undefined);
  }
}
