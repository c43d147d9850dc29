// What a peer is asked for: to take jobs through its queue, one after the other, as its users would.

export type PeerJob = { file: string; jobs: number; synchronous: 'NORMAL' | 'FULL' }
export type PeerDone = { addMs: number; takeMs: number }
