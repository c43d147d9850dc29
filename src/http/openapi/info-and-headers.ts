// The parts of the API description that belong to no route.

const REQUEST_ID = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$', maxLength: 128 }

export const INFO = {
  title: 'Partner Smart Timing Execution API',
  summary: 'Recurring Bitcoin purchase plans, timed tranche by tranche.',
  description: [
    'Link a user, create a plan, poll what is due, buy it on your venue, confirm. The service keeps the ledger and never',
    'holds money. Every amount is a decimal string, every instant is UTC. The sandbox and the live environment differ by',
    'nothing but the key. Fields may be added to answers: ignore what you do not know.',
  ].join(' '),
  contact: { name: 'The operator who gave you your key' },
  license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
}

export const SERVERS = [
  {
    url: '/',
    description: 'The service that answers this document, for the sandbox and for production alike.',
    'x-internal': false,
  },
]

export const TAGS = [
  { name: 'Identity', description: 'Who a key belongs to.' },
  { name: 'Users', description: 'People who have consented.' },
  { name: 'Plans', description: 'What is to be bought, how often.' },
  { name: 'Executions', description: 'Instructions to buy, and their outcome.' },
  { name: 'Webhooks', description: 'Wake-ups that save the wait until the next poll.' },
  { name: 'Billing', description: 'What a month costs.' },
]

/** Taken by every route. */
export const PARAMETERS = [
  {
    name: 'X-Request-Id',
    in: 'header',
    required: false,
    description: 'Your id of this call; it comes back, and is in the log. Anything else is replaced.',
    schema: REQUEST_ID,
    example: 'f3b1c6de-7a54-4c1e-9a51-0c2a8c1d7e10',
  },
]

export const HEADERS = {
  RequestId: {
    description: 'The id of this call, to quote to the operator.',
    required: true,
    schema: REQUEST_ID,
  },
  IgnoredFields: {
    description:
      'Names of what you sent and this route does not know: members of the body, and `?name` for parameters of the ' +
      'query. They were ignored; one of them may be misspelt. Absent when there are none. Percent-encoded except for ' +
      'letters, digits and `-._~`. An empty name is `""`, `*` ends a name that is cut, `+N` means N more.',
    required: false,
    schema: {
      type: 'string',
      maxLength: 1_024,
      pattern: '^[A-Za-z0-9._~%?*"+-]+(, [A-Za-z0-9._~%?*"+-]+)*$',
    },
    example: 'stauts, start%20date, ?limt',
  },
  DueRemaining: {
    description:
      'How many are still due after this page: above 0, poll again at once. Some services count no further than 10,000.',
    required: true,
    schema: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER, format: 'int64' },
  },
  RetryAfter: {
    description: 'Seconds to wait.',
    required: true,
    schema: { type: 'integer', minimum: 1, maximum: 86_400, format: 'int32' },
  },
  Challenge: {
    description: 'Always Bearer.',
    required: true,
    schema: { type: 'string', const: 'Bearer' },
  },
}
