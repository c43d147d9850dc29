// `npm run bench:page`: writes the figures of docs/performance.md and its chart from fixtures/bench/report.json.

import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { drawGrowth } from './chart.ts'
import { withFigures } from './page.ts'
import { readReport } from './report.ts'
import { hasFailed } from './row.ts'

const ROOT = join(import.meta.dirname, '../..')
const PAGE = join(ROOT, 'docs/performance.md')

const report = readReport(join(ROOT, 'fixtures/bench/report.json'))
writeFileSync(PAGE, withFigures(readFileSync(PAGE, 'utf8'), report))
const growth = report.rows.find(({ name }) => name === 'growth')
if (growth && !hasFailed(growth)) writeFileSync(join(ROOT, 'fixtures/bench/growth.svg'), drawGrowth(growth))
