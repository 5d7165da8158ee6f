/**
 * The fold: how each event changes what a client sees. Twin of `protocol/waitpoint_protocol/view.py`; vectors and a
 * property test hold both to the same behaviour, so a rule is never changed here alone.
 *
 * Knows state and events; nothing of sockets. States are never changed in place: whatever an event does not touch keeps
 * its identity, so `===` tells whether a message has to be drawn again. Total: an event that does not fit, or is of a
 * type that is not known here, changes nothing.
 *
 * @module
 */

/** @import { ActionRecord, ActionShape, DataPart, Event, Part } from "./wire.js" */
/** @import { ReasoningPart, TextPart, ThreadState, ToolPart } from "./wire.js" */

import { Draft, openMessage } from "./draft.js";

export { openMessage };

/** @type {ReadonlySet<string>} Tool states that never change again. */
export const TERMINAL = new Set(["output-available", "output-error"]);

/**
 * The view of a thread in which nothing has happened yet.
 *
 * @param {string} thread
 * @returns {ThreadState}
 */
export function emptyState(thread) {
  return { thread, status: "idle", messages: [], before: 0, pending: [], queued: [] };
}

/**
 * The state after one event.
 *
 * @param {ThreadState} state
 * @param {Event} event
 * @returns {ThreadState}
 */
export function apply(state, event) {
  return fold(state, [event]);
}

/**
 * The state after a batch of events. Lists are copied once for the batch, not once for each of its deltas.
 *
 * @param {ThreadState} state
 * @param {Iterable<Event>} events
 * @returns {ThreadState}
 */
export function fold(state, events) {
  const draft = new Draft(state);
  for (const event of events) change(draft, event);
  return draft.state;
}

/**
 * How many tool calls of the open message have no result yet. The model goes on when it reaches zero.
 *
 * @param {ThreadState} state
 */
export function waitingFor(state) {
  const message = openMessage(state);
  const parts = message === null ? [] : message.parts;
  return parts.filter((part) => part.type === "tool" && !TERMINAL.has(part.state)).length;
}

/**
 * @param {Draft} draft
 * @param {Event} event
 */
function change(draft, event) {
  switch (event.type) {
    case "text-delta":
    case "reasoning-delta": {
      const found = findText(draft.state, event.type === "text-delta" ? "text" : "reasoning", event.id);
      if (found >= 0 && textAt(draft.state, found).state === "streaming") {
        /** @type {TextPart | ReasoningPart} */ (draft.part(found)).text += event.delta;
      }
      return;
    }
    case "text-start":
      return addPart(draft, { type: "text", id: event.id, step: event.step, text: "", state: "streaming" });
    case "reasoning-start":
      return addPart(draft, { type: "reasoning", id: event.id, step: event.step, text: "", state: "streaming" });
    case "text-end":
    case "reasoning-end": {
      const found = findText(draft.state, event.type === "text-end" ? "text" : "reasoning", event.id);
      if (found >= 0) /** @type {TextPart | ReasoningPart} */ (draft.part(found)).state = "done";
      return;
    }
    case "tool-input-start":
    case "tool-input-delta":
    case "tool-input-available":
      return changeToolInput(draft, event);
    case "tool-running":
    case "tool-progress":
    case "tool-output-available":
    case "tool-output-error":
      return changeTool(draft, event);
    case "action-pending":
    case "action-claimed":
    case "action-resolved":
      return changeAction(draft, event);
    case "message-added":
    case "message-queued":
    case "message-start":
    case "message-finish":
      return changeMessage(draft, event);
    case "data":
      return changeData(draft, event);
    case "step-reset":
      return resetStep(draft, event.step);
    case "run-start":
      draft.root().status = "running";
      return;
    case "run-finish":
      draft.root().status = event.status;
      return;
    case "thread-updated":
      if (event.title !== undefined && event.title !== null) draft.root().title = event.title;
      return;
    case "step-finish":
      return;
    default:
      // An event of a newer server: part of the log, but not of this client's view.
      return;
  }
}

/**
 * @param {ThreadState} state
 * @param {"text" | "reasoning"} type
 * @param {string} id
 */
function findText(state, type, id) {
  return findPart(state, (part) => part.type === type && part.id === id);
}

/**
 * @param {ThreadState} state
 * @param {string} toolCallId
 */
function findTool(state, toolCallId) {
  return findPart(state, (part) => part.type === "tool" && part.toolCallId === toolCallId);
}

/**
 * Index of the last part of the open message that matches, or -1.
 *
 * @param {ThreadState} state
 * @param {(part: Part) => boolean} matches
 */
function findPart(state, matches) {
  const parts = openMessage(state)?.parts ?? [];
  for (let index = parts.length - 1; index >= 0; index--) if (matches(parts[index])) return index;
  return -1;
}

/**
 * @param {ThreadState} state
 * @param {number} index
 */
function textAt(state, index) {
  return /** @type {TextPart | ReasoningPart} */ (openMessage(state)?.parts[index]);
}

/**
 * @param {ThreadState} state
 * @param {number} index
 */
function toolAt(state, index) {
  return /** @type {ToolPart} */ (openMessage(state)?.parts[index]);
}

/**
 * @param {Draft} draft
 * @param {Part} part
 */
function addPart(draft, part) {
  if (openMessage(draft.state) !== null) draft.open().parts.push(part);
}

/**
 * @param {Draft} draft
 * @param {Extract<Event, { type: "tool-input-start" | "tool-input-delta" | "tool-input-available" }>} event
 */
function changeToolInput(draft, event) {
  const found = findTool(draft.state, event.toolCallId);
  const state = found < 0 ? null : toolAt(draft.state, found).state;
  switch (event.type) {
    case "tool-input-start": {
      const { toolCallId, toolName, step } = event;
      if (state !== null) return;
      return addPart(draft, {
        type: "tool", toolCallId, toolName, step, state: "input-streaming", inputText: "", actions: [],
      });
    }
    case "tool-input-delta": {
      if (state !== "input-streaming") return;
      const part = /** @type {ToolPart} */ (draft.part(found));
      part.inputText = (part.inputText ?? "") + event.inputTextDelta;
      return;
    }
    case "tool-input-available": {
      const { toolCallId, toolName, step, input } = event;
      if (state === null) {
        return addPart(draft, {
          type: "tool", toolCallId, toolName, step, state: "input-available", input, actions: [],
        });
      }
      if (state !== "input-streaming") return;
      const part = /** @type {ToolPart} */ (draft.part(found));
      delete part.inputText;
      part.state = "input-available";
      part.toolName = toolName;
      part.input = input;
      return;
    }
  }
}

/**
 * @param {Draft} draft
 * @param {Extract<Event, { type: `tool-${"running" | "progress" | "output-available" | "output-error"}` }>} event
 */
function changeTool(draft, event) {
  const found = findTool(draft.state, event.toolCallId);
  if (found < 0 || TERMINAL.has(toolAt(draft.state, found).state)) return;
  const part = /** @type {ToolPart} */ (draft.part(found));
  switch (event.type) {
    case "tool-running":
      part.state = "running";
      part.attempt = event.attempt;
      delete part.progress;
      return;
    case "tool-progress":
      part.progress = event.progress;
      return;
    case "tool-output-available":
      part.state = "output-available";
      part.output = event.output;
      delete part.progress;
      return;
    case "tool-output-error":
      part.state = "output-error";
      part.errorText = event.errorText;
      delete part.progress;
      delete part.inputText;
      return;
  }
}

/**
 * @param {Draft} draft
 * @param {Extract<Event, { type: "action-pending" | "action-claimed" | "action-resolved" }>} event
 */
function changeAction(draft, event) {
  switch (event.type) {
    case "action-pending": {
      const { action } = event;
      // Asked outside any message: there is no part that waits.
      if (action.origin.messageId === "") return void draft.list("pending").push(action);
      const found = findTool(draft.state, action.origin.toolCallId);
      if (found < 0 || TERMINAL.has(toolAt(draft.state, found).state)) return;
      const part = /** @type {ToolPart} */ (draft.part(found));
      part.state = "waiting";
      delete part.progress;
      /** @type {ActionRecord} */
      const record = { id: action.id, suspendName: action.origin.suspendName, input: action.input, at: action.at };
      part.actions = [...part.actions, record];
      draft.list("pending").push(action);
      return;
    }
    case "action-claimed": {
      draft.state.pending.forEach((action, index) => {
        if (action.id !== event.action) return;
        const claimed = /** @type {ActionShape} */ (draft.copy(action));
        if (event.claim === undefined || event.claim === null) delete claimed.claim;
        else claimed.claim = event.claim;
        draft.list("pending")[index] = claimed;
      });
      return;
    }
    case "action-resolved": {
      if (draft.state.pending.some((action) => action.id === event.action)) {
        draft.root().pending = draft.state.pending.filter((action) => action.id !== event.action);
      }
      const found = findTool(draft.state, event.toolCallId);
      if (found < 0 || !toolAt(draft.state, found).actions.some((visit) => visit.id === event.action)) return;
      const part = /** @type {ToolPart} */ (draft.part(found));
      part.actions = part.actions.map((visit) =>
        visit.id === event.action ? { ...visit, resolution: event.resolution } : visit,
      );
      return;
    }
  }
}

/**
 * @param {Draft} draft
 * @param {Extract<Event, { type: "message-added" | "message-queued" | "message-start" | "message-finish" }>} event
 */
function changeMessage(draft, event) {
  const open = openMessage(draft.state);
  switch (event.type) {
    case "message-added":
      if (draft.state.queued.some((message) => message.id === event.message.id)) {
        draft.root().queued = draft.state.queued.filter((message) => message.id !== event.message.id);
      }
      if (open === null) draft.list("messages").push(event.message);
      return;
    case "message-queued":
      draft.list("queued").push(event.message);
      return;
    case "message-start":
      if (open !== null) return;
      draft.list("messages").push({ id: event.messageId, role: "assistant", parts: [], status: "open", at: event.at });
      return;
    case "message-finish": {
      if (open === null || open.id !== event.messageId) return;
      const message = draft.open();
      message.status = "final";
      message.reason = event.reason;
      if (event.errorText !== undefined && event.errorText !== null) message.errorText = event.errorText;
      message.parts.forEach((part, index) => {
        if ((part.type === "text" || part.type === "reasoning") && part.state !== "done") {
          message.parts[index] = { ...part, state: "done" };
        }
      });
      return;
    }
  }
}

/**
 * @param {Draft} draft
 * @param {Extract<Event, { type: "data" }>} event
 */
function changeData(draft, event) {
  const parts = openMessage(draft.state)?.parts ?? [];
  const found = parts.findIndex((part) => part.type === "data" && part.id === event.id);
  if (found >= 0) {
    const part = /** @type {DataPart} */ (draft.part(found));
    part.name = event.name;
    part.data = event.data;
    return;
  }
  /** @type {DataPart} */
  const added = { type: "data", id: event.id, name: event.name, data: event.data };
  if (event.step !== undefined && event.step !== null) added.step = event.step;
  addPart(draft, added);
}

/**
 * Discard what a cut-off model step streamed. Calls that were complete belong to a finished step and stay.
 *
 * @param {Draft} draft
 * @param {number} step
 */
function resetStep(draft, step) {
  const open = openMessage(draft.state);
  if (open === null) return;
  const kept = open.parts.filter(
    (part) => part.type === "file" || part.step !== step || (part.type === "tool" && part.state !== "input-streaming"),
  );
  if (kept.length !== open.parts.length) draft.open().parts = kept;
}
