// version: which program this is, and which Node it runs on.

import { Command } from 'commander'
import { VERSION } from '../version.ts'
import type { Cli } from './context.ts'
import { print } from './terminal/print.ts'

export const versionJson = () => ({ version: VERSION, node: process.versions.node })

export function versionCommand(cli: Cli): Command {
  return new Command('version').description('the version of this program').action(() => {
    print(cli, versionJson(), () => VERSION)
  })
}
