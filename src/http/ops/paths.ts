// The paths of operations, and how a call to one is answered.

/** The page and the downloads beside it. */
export const PAGE_PATHS = ['/ops', '/ops/export', '/ops/invoice'] as const
export type PagePath = (typeof PAGE_PATHS)[number]

export const OPS_PATHS = ['/healthz', '/readyz', '/metrics', ...PAGE_PATHS] as const
export type OpsPath = (typeof OPS_PATHS)[number]

export type OpsAnswer = {
  status: number
  headers: Record<string, string>
  body: string | ReadableStream<Uint8Array>
}
