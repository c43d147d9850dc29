// The server, plain or with TLS: Node's own as listhen makes it, without the rest of listhen, which would search a
// port, close and print; and the protocols and ciphers of TLS. The choice and renewal of the certificate are in
// src/cli/service/certificate.ts.

import { constants } from 'node:crypto'
import type { RequestListener, Server } from 'node:http'
import type { SecureContextOptions } from 'node:tls'

/** A server with `handle` that does not listen yet, and its certificate, as PEM; null without TLS. */
export async function makeServer(handle: RequestListener, tls: Tls) {
  const { listen } = await import('listhen')
  const { server, https } = await listen(handle, {
    // listhen cannot make a server without opening it, and an error at that moment would end the process. A free port
    // of this machine always works; `bind` then takes the requested port, and explains a failure.
    hostname: '127.0.0.1',
    port: { port: 0, host: NOWHERE },
    public: false,
    https: tls === null ? false : certificateOf(tls),
    // Keeps listhen from printing, and from opening a browser.
    isTest: true,
    isProd: false,
    // Otherwise listhen would end the process at a signal, even with calls in flight.
    autoClose: false,
  })
  for (const event of ['connection', 'secureConnection', 'request'])
    dropFollowers(server, event, tls !== null)
  await new Promise((resolve) => server.close(resolve))
  // listhen has no option for ciphers.
  if (https !== false && 'setSecureContext' in server) server.setSecureContext(secureContextOf(https))
  return { server, cert: https === false ? null : https.cert }
}

/**
 * An empty list of addresses. listhen looks for a free port on the given addresses by opening and closing it, and
 * another program may take the port in between. Without addresses it leaves the choice to the system.
 */
const NOWHERE = Object.assign([], { toString: () => 'nowhere' }) as unknown as string

/**
 * Removes the bookkeeping of http-shutdown, which listhen adds after the listeners that Node or we have for an event.
 * It marks every socket at every answer, and could only end a stop in a way that loses answers.
 */
function dropFollowers(server: Server, event: string, isTls: boolean): void {
  const skipped = event === 'secureConnection' && !isTls ? 0 : 1
  for (const listener of server.listeners(event).slice(skipped)) server.off(event, listener as () => void)
}

// TLS: the certificate, given or generated for a first try, and the ciphers.

export type Certificate = { cert: string; key: string }
/** Plain HTTP, TLS with this certificate, or TLS with one generated for these names. */
export type Tls = Certificate | { selfSignedFor: readonly string[] } | null

const SELF_SIGNED_DAYS = 7

/** The ciphers of TLS 1.3, and those of TLS 1.2 with forward secrecy and authenticated encryption. */
const CIPHERS = [
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'TLS_AES_128_GCM_SHA256',
  ...['AES128-GCM-SHA256', 'AES256-GCM-SHA384', 'CHACHA20-POLY1305'].flatMap((cipher) => [
    `ECDHE-ECDSA-${cipher}`,
    `ECDHE-RSA-${cipher}`,
  ]),
]

function certificateOf(tls: NonNullable<Tls>) {
  if ('selfSignedFor' in tls) return { domains: [...tls.selfSignedFor], validityDays: SELF_SIGNED_DAYS }
  return inPem(tls)
}

/** A certificate in the form that Node's server takes. Throws when one of the texts is not PEM. */
export const secureContextOf = (certificate: Certificate): SecureContextOptions => ({
  ...inPem(certificate),
  minVersion: 'TLSv1.2',
  ciphers: CIPHERS.join(':'),
  honorCipherOrder: true,
  // A handshake costs the server more than the client, and a connection needs only one.
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
})

const inPem = ({ cert, key }: Certificate): Certificate => ({
  cert: fromFirstBlock(cert),
  key: fromFirstBlock(key),
})

/** listhen treats a text as a file name unless it begins with a PEM block, and openssl writes comments before one. */
function fromFirstBlock(pem: string): string {
  const start = pem.indexOf('-----BEGIN')
  if (start < 0) throw new Error('The TLS certificate and its key must be PEM texts.')
  return pem.slice(start)
}
