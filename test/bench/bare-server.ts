// The floors of a call: servers that answer and do nothing else, or only what every call needs, each in a process of
// its own.

import { join } from 'node:path'
import { startHelper } from './helper.ts'
import type { Server } from './loading.ts'
import type { Stage } from './row.ts'

export async function startBare(stage: Stage, kind: 'node:http' | 'h3' | 'h3 with duties'): Promise<Server> {
  const script = join(import.meta.dirname, 'floors/http.ts')
  const helper = await startHelper<object, string>(stage, script, [kind, join(stage.folder, 'floor.log')])
  return { url: await helper.ask({}), pid: helper.pid }
}
