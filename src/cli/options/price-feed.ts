// --price-feed: where a pass gets its price.

import { Option } from 'commander'

export const priceFeedOption = () =>
  new Option(
    '--price-feed <spec>',
    'none, static:PRICE, an exchange, median, or a JSON ticker (tranche docs engine)',
  )
    .env('TRANCHE_PRICE_FEED')
    .default('none')
