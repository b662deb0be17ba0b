/** Lists that come in pages. */

/** A part of a list. `next` leads to the following part; it is undefined at the end. */
export interface Page<T> {
  readonly items: T[];
  readonly next: string | undefined;
}

/** A list in pages: iterate over all of it with `for await`, or get one `page()`. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #load: (cursor: string | undefined) => Promise<Page<T>>;

  constructor(load: (cursor: string | undefined) => Promise<Page<T>>) {
    this.#load = load;
  }

  /** Return the first page, or the one that `next` of an earlier page leads to. */
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
