// What a server shows its clients over TLS: a certificate, which it is given or which is made for a first try, and the
// ciphers that they may choose from.

import { constants } from 'node:crypto'
import type { SecureContextOptions } from 'node:tls'

/** PEM texts. */
export type Certificate = { cert: string; key: string }
/** What to speak: plain HTTP, TLS with this certificate, or TLS with one that is made for these names now. */
export type Tls = Certificate | { selfSignedFor: readonly string[] } | null

/** How long a certificate that was made for a first try is valid. */
const SELF_SIGNED_DAYS = 7

/**
 * TLS 1.3 as OpenSSL has it; of TLS 1.2, only what has forward secrecy and authenticated encryption. Every client that
 * speaks TLS 1.2 today has one of them.
 */
const CIPHERS = [
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_AES_128_GCM_SHA256',
  ...['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].flatMap((cipher) => [
    `ECDHE-ECDSA-${cipher}`,
    `ECDHE-RSA-${cipher}`,
  ]),
]

/** In the form that listhen takes. */
export function certificateOf(tls: NonNullable<Tls>) {
  if ('selfSignedFor' in tls) return { domains: [...tls.selfSignedFor], validityDays: SELF_SIGNED_DAYS }
  return inPem(tls)
}

/** All that a server of Node is to show, in the form that it takes. Throws when one of the texts is not PEM. */
export const secureContextOf = (certificate: Certificate): SecureContextOptions => ({
  ...inPem(certificate),
  minVersion: 'TLSv1.2',
  ciphers: CIPHERS.join(':'),
  honorCipherOrder: true,
  // A handshake costs the server more than the client, and one connection needs one only.
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
})

const inPem = ({ cert, key }: Certificate): Certificate => ({
  cert: fromFirstBlock(cert),
  key: fromFirstBlock(key),
})

/** listhen takes text for a file name unless it begins with a PEM block, and openssl writes comments before one. */
function fromFirstBlock(pem: string): string {
  const start = pem.indexOf('-----BEGIN')
  if (start < 0) throw new Error('The TLS certificate and its key must be PEM texts.')
  return pem.slice(start)
}
