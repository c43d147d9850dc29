// The progress bar: on stderr, for a person at a terminal; nothing is drawn elsewhere.

import type { Streams } from '../context.ts'

const WIDTH = 40

export type Progress = { show: (share: number) => void; clear: () => void }

/** `label` describes a share from 0 to 1. Redraws only when a whole percent more is done. */
export function createProgress({ err }: Pick<Streams, 'err'>, label: (share: number) => string): Progress {
  if (!err.isTTY) return { show: () => {}, clear: () => {} }
  let shown = -1
  return {
    show(share) {
      const percent = Math.floor(Math.min(1, share) * 100)
      if (percent === shown) return
      shown = percent
      const done = Math.round((percent / 100) * WIDTH)
      const bar = '█'.repeat(done) + '░'.repeat(WIDTH - done)
      // The label may be shorter than the last one was.
      err.write(`\r${bar} ${String(percent).padStart(3)} %  ${label(share)}\x1b[K`)
    },
    clear: () => err.write('\r\x1b[K'),
  }
}
