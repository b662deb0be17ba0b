/** For servers that have keys. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { key } from "../api/client";

export function KeyForm() {
  const client = useQueryClient();
  const [text, setText] = useState("");
  const send = (event: React.FormEvent) => {
    event.preventDefault();
    key.set(text.trim());
    client.clear();
  };
  return (
    <form className="empty" onSubmit={send}>
      <h2>This server wants a key</h2>
      <p>One of those in its WINDLASS_API_KEY. It is kept in this browser and sent with every request.</p>
      <label>
        Key <input type="password" autoComplete="current-password" value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <button type="submit" className="primary" disabled={!text.trim()}>
        Use this key
      </button>
    </form>
  );
}
