// The messages between a service and the thread that moves its log (checkpoints.ts, checkpoint-thread.ts).

export type ThreadData = {
  file: string
  /** The file that the service has open. */
  identity: string
  /** Set to 1 once the thread's connection is closed. */
  closed: Int32Array
}

/** To move pages while others write; the rest of them, while nobody in the service does; to close. */
export type Asked = 'move' | 'finish' | 'close'
/** That little is left; that the log begins anew; that somebody was in the way. */
export type Said = 'nearly' | 'done' | 'hindered'
