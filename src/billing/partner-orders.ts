// A partner's own list of its orders: the order in each row of a CSV file.

import { DECIMAL_PATTERN, EXACT_PER_UNIT, exact, LEDGER_MAX } from '../core/money.ts'
import { Problem } from '../core/problem.ts'
import { cut } from '../core/text.ts'
import { TOTAL } from './columns.ts'
import { BOM, type CsvForm, type CsvRecord, recordsOf, separatedBy, unguarded } from './csv.ts'

export type OrderColumns = {
  order: string
  usd: string
  btc: string
  fee: string | null
  plan: string | null
}

const ORDER_COLUMNS = {
  order: 'partner_order_id',
  usd: 'usd_amount',
  btc: 'btc_amount',
  fee: 'partner_fee_usd',
  plan: 'partner_plan_id',
} as const satisfies OrderColumns

/** Exact amounts in units of 1e-18, null where nothing was bought. A leading quote may be part of a name. */
export type OrderRow = {
  line: number
  order: string
  amounts: { usd: bigint; btc: bigint } | null
  fee: bigint | null
  plan: string | null
}

type Reading = Pick<CsvForm, 'delimiter' | 'decimalComma'> & {
  file: string
  /** The columns named on the command line, which the file must have. */
  columns: Partial<Record<keyof OrderColumns, string>>
  partnerSlug: string
  environment: string
}

/** Yields the rows in batches. Throws bad_file, with the line, for a row that cannot be read exactly. */
export async function* orderRows(text: AsyncIterable<string>, reading: Reading): AsyncGenerator<OrderRow[]> {
  const wrong = (line: number, why: string): Problem =>
    new Problem('bad_file', `${reading.file} line ${line}: ${why}.`)
  let rowOf: ((record: CsvRecord) => OrderRow | null) | null = null
  for await (const records of recordsOf(text, { delimiter: reading.delimiter, wrong })) {
    const rows: OrderRow[] = []
    for (const record of records) {
      if (rowOf === null) rowOf = rowReader(record, reading, wrong)
      else if (record.cells.length > 1 || record.cells[0] !== '') {
        const row = rowOf(record)
        if (row !== null) rows.push(row)
      }
    }
    yield rows
  }
  if (rowOf === null) throw wrong(1, 'the file is empty, and should begin with the names of its columns')
}

type Wrong = (line: number, why: string) => Problem

/** Reads rows under this header; null for a row of totals. */
function rowReader(
  header: CsvRecord,
  { columns, partnerSlug, environment, delimiter, decimalComma }: Reading,
  wrong: Wrong,
): (record: CsvRecord) => OrderRow | null {
  const names = header.cells.map((name, at) => (at === 0 ? name.replace(BOM, '') : name).trim())
  const isOther = header.cells.length === 1 ? separatedBy(names[0] ?? '', delimiter) : null
  if (isOther !== null) throw wrong(header.line, isOther)
  const placeOf = (column: keyof OrderColumns): number => {
    const name = columns[column] ?? ORDER_COLUMNS[column]
    const place = names.indexOf(name)
    if (place >= 0 && names.indexOf(name, place + 1) >= 0)
      throw wrong(header.line, `two columns are called ${name}`)
    if (place >= 0 || (columns[column] === undefined && (column === 'fee' || column === 'plan'))) return place
    throw wrong(
      header.line,
      `there is no column ${name} (found: ${cut(names.join(', '), 200)}); --column-${column} names another`,
    )
  }
  const places = { order: placeOf('order'), usd: placeOf('usd'), btc: placeOf('btc') }
  const others = { fee: placeOf('fee'), plan: placeOf('plan') }
  const whose = [
    { name: 'partner_slug', place: names.indexOf('partner_slug'), expected: partnerSlug },
    { name: 'environment', place: names.indexOf('environment'), expected: environment },
  ].filter(({ place }) => place >= 0)
  return ({ line, cells }) => {
    if (cells.length !== names.length)
      throw wrong(line, `it has ${cells.length} cells, and the header ${names.length}`)
    const cell = (place: number): string => cells[place] ?? ''
    const order = cell(places.order)
    if (order === '' && cells[0] === TOTAL) return null
    for (const { name, place, expected } of whose)
      if (cell(place) !== expected) throw wrong(line, `${name} is ${shown(cell(place))}, not ${expected}`)
    const amount = (place: number): bigint | null =>
      place < 0 ? null : amountOf(cell(place), decimalComma, (why) => wrong(line, `${names[place]} ${why}`))
    const [spent, bought] = [amount(places.usd), amount(places.btc)]
    if ((spent === null) !== (bought === null))
      throw wrong(line, 'it has dollars or bitcoin alone: a purchase has both, and other rows have neither')
    return {
      line,
      order,
      amounts: spent === null || bought === null ? null : { usd: spent, btc: bought },
      fee: amount(others.fee),
      plan: others.plan < 0 || cell(others.plan) === '' ? null : cell(others.plan),
    }
  }
}

function amountOf(cell: string, decimalComma: boolean, wrong: (why: string) => Problem): bigint | null {
  const text = unguarded(cell).trim()
  if (text === '') return null
  const swapped = text.replace(/[.,]/g, (mark) => (mark === ',' ? '.' : ','))
  const decimal = decimalComma ? swapped : text
  if (!DECIMAL_PATTERN.test(decimal)) {
    // 1,234 may be a thousand.
    const hint =
      !decimalComma && DECIMAL_PATTERN.test(swapped) && !/,\d{3}$/.test(text)
        ? '; --decimal-comma reads it'
        : ''
    throw wrong(`is ${shown(text)}: an amount is a decimal such as 1234${decimalComma ? ',' : '.'}50${hint}`)
  }
  const amount = exact(decimal)
  if (amount > AMOUNT_MAX || -amount > AMOUNT_MAX) throw wrong(`is ${shown(text)}: no purchase is so large`)
  return amount
}

const AMOUNT_MAX = LEDGER_MAX * EXACT_PER_UNIT

const shown = (cell: string): string => JSON.stringify(cut(cell, 60))
