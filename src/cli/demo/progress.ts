// A progress bar on a terminal, nothing anywhere else.

import type { Streams } from '../context.ts'

const WIDTH = 40

export type Progress = { show: (share: number) => void; clear: () => void }

/** Draws only when a whole percent more is done, so that the terminal is no brake. */
export function createProgress({ err }: Pick<Streams, 'err'>, label: (share: number) => string): Progress {
  if (!err.isTTY) return { show: () => {}, clear: () => {} }
  let shown = -1
  return {
    show(share) {
      const percent = Math.floor(share * 100)
      if (percent === shown) return
      shown = percent
      const done = Math.round(share * WIDTH)
      const bar = '█'.repeat(done) + '░'.repeat(WIDTH - done)
      err.write(`\r${bar} ${String(percent).padStart(3)} %  ${label(share)}`)
    },
    clear: () => err.write('\r\u001b[K'),
  }
}
