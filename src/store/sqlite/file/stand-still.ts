// A pause that blocks this thread: for a command that has not begun yet, never for a service.

export const standStill = (ms: number): void =>
  void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
