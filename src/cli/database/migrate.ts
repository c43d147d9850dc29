// migrate: the migrations of the database, applied or listed.

import { Command } from 'commander'
import { formatInstantOrNull } from '../../core/time.ts'
import type { Cli } from '../context.ts'
import { print, warn } from '../terminal.ts'

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description('bring the database to the schema of this version')
    .option('--status', 'only show which migrations are applied')
    .action(async ({ status }: { status?: boolean }) => {
      const { describeMigration } = await import('../../store/migrations.ts')
      const { sealedWords } = await import('../../store/seal.ts')
      if (!status) await cli.withStore(async () => {}, { create: true, saysSeal: true })
      const database = await cli.database()
      const states = await database.migrationStates()
      const seal = await database.seal()
      if (seal) warn(cli, sealedWords(seal))
      const json = states.map(({ name, appliedAt }) => ({
        name,
        applied_at: formatInstantOrNull(appliedAt),
      }))
      print(cli, json, () => states.map(describeMigration).join('\n'))
    })
}
