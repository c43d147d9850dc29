// migrate: the migrations of the database, applied or listed.

import { Command } from 'commander'
import { movedInWords } from '../../core/frozen.ts'
import { counted } from '../../core/text.ts'
import { formatInstantOrNull } from '../../core/time.ts'
import type { Cli } from '../context.ts'
import { print, warn } from '../terminal.ts'

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description('bring the database to the schema of this version')
    .option('--status', 'only show which migrations are applied')
    .action(async ({ status }: { status?: boolean }) => {
      const { isPending } = await import('../../store/migrations.ts')
      const database = await cli.database()
      const before = status || (await database.isMissing()) ? [] : await database.migrationStates()
      if (!status) await cli.withStore(async () => {}, { create: true, saysMoved: true })
      const states = await database.migrationStates()
      const applied = states.length - before.filter((state) => !isPending(state)).length
      const frozen = await database.frozen()
      if (frozen?.kind === 'moved') warn(cli, movedInWords(frozen))
      const json = states.map(({ name, appliedAt }) => ({
        name,
        applied_at: formatInstantOrNull(appliedAt),
      }))
      print(cli, json, () =>
        status
          ? json
              .map(({ name, applied_at: at }) => `${name} ${at === null ? 'pending' : `applied ${at}`}`)
              .join('\n')
          : `${counted(applied, 'migration')} applied`,
      )
    })
}
