// `npm run bench:page`: writes the figures of docs/performance.md and its chart from the reports in fixtures/bench/.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawGrowth, withFigures } from './page.ts'
import { readReport } from './report.ts'
import { hasFailed } from './row.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = join(ROOT, 'docs/performance.md')

const file = readReport(join(ROOT, 'fixtures/bench/report.json'))
const postgres = readReport(join(ROOT, 'fixtures/bench/postgres.json'))
writeFileSync(PAGE, withFigures(readFileSync(PAGE, 'utf8'), { file, postgres }))
const growth = file.rows.find(({ name }) => name === 'growth')
if (growth && !hasFailed(growth)) writeFileSync(join(ROOT, 'fixtures/bench/growth.svg'), drawGrowth(growth))
