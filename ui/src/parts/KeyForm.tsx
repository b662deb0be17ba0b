/** Asks for an API key. */
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
      <h2>API key required</h2>
      <p>Enter one of the keys in the server's WINDLASS_API_KEY. It is stored in this browser and sent with every request.</p>
      <label>
        Key <input type="password" autoComplete="current-password" value={text} onChange={(event) => setText(event.target.value)} />
      </label>
      <button type="submit" className="primary" disabled={!text.trim()}>
        Use this key
      </button>
    </form>
  );
}
