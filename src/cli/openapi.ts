// openapi: the description of the partner API.

import { Command } from 'commander'
import { VERSION } from '../version.ts'
import type { Cli } from './context.ts'

/** Prints what `serve` answers at /openapi.json, for a client generator without a service at hand. */
export function openapiCommand(cli: Cli): Command {
  return new Command('openapi')
    .description('the description of the partner API (OpenAPI 3.1), as serve answers it at /openapi.json')
    .action(async () => {
      const { describeApi } = await import('../http/openapi/document.ts')
      cli.streams.out.write(`${JSON.stringify(describeApi(VERSION))}\n`)
    })
}
