// The most that a fill may be: dollars, bitcoin, a price and a fee.

import { btc, price, usd } from './money.ts'

/**
 * All the bitcoin there will ever be, and dollars, a price and a fee beyond any real one.
 * Dollars are limited where an operator enters them; a report is limited by its reservation.
 */
export const FILL_USD_MAX = usd('1000000000')
export const FILL_BTC_MAX = btc('21000000')
export const FILL_PRICE_MAX = price('50000000')
export const FILL_FEE_MAX = usd('1000000')
