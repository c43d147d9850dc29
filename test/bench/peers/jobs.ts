// What a peer is asked for: to take jobs through its queue as its users would.

export type PeerJob = { file: string; jobs: number; synchronous: 'NORMAL' | 'FULL' }
/** On a server: claimed and completed by ten connections one by one, or many at a time. */
export type ServerPeerJob = { database: string; jobs: number; manner: 'one by one' | 'in batches' }
export type PeerDone = { addMs: number; takeMs: number }
