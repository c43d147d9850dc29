// migrate: the migrations of the database, applied or listed.

import { Command } from 'commander'
import { formatInstant } from '../core/instant.ts'
import type { Cli } from './context.ts'
import { print } from './terminal/print.ts'

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description('bring the database to the schema of this version')
    .option('--status', 'only show which migrations are applied')
    .action(async ({ status }: { status?: boolean }) => {
      const { describeMigration } = await import('../store/migrations.ts')
      if (!status) await cli.withStore(async () => {}, { create: true })
      const states = await (await cli.database()).migrationStates()
      const json = states.map(({ name, appliedAt }) => ({
        name,
        applied_at: appliedAt === null ? null : formatInstant(appliedAt),
      }))
      print(cli, json, () => states.map(describeMigration).join('\n'))
    })
}
