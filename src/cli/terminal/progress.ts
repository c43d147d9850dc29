// A progress bar on stderr, drawn only for a person at a terminal.

const WIDTH = 30
const REDRAW_MS = 100

export type Progress = { show: (share: number) => void; stop: () => void }

export function startProgress(err: NodeJS.WritableStream & { isTTY?: boolean }, label: string): Progress {
  if (!err.isTTY) return { show: () => {}, stop: () => {} }
  let drawn = Number.NEGATIVE_INFINITY
  return {
    show(share) {
      const now = performance.now()
      if (now - drawn < REDRAW_MS) return
      drawn = now
      const full = Math.round(Math.min(1, Math.max(0, share)) * WIDTH)
      err.write(
        `\r${label} [${'#'.repeat(full)}${' '.repeat(WIDTH - full)}] ${String(Math.floor(share * 100)).padStart(3)} %`,
      )
    },
    stop: () => {
      err.write('\r\x1b[K')
    },
  }
}
