// Which certificate serve shows: one from files, or for a first try one that is made at the start.

import { readFileSync } from 'node:fs'
import { Problem } from '../../core/problem.ts'
import type { Certificate, Tls } from '../../http/listen/server.ts'
import type { Listener } from '../../http/listen.ts'
import type { Log } from '../../log.ts'

export type TlsOptions = { host: string; tlsCert?: string; tlsKey?: string; tlsSelfSigned?: true }

/** Throws usage when the options contradict each other, and what the file system says of a file. */
export function tlsOf({ host, tlsCert, tlsKey, tlsSelfSigned }: TlsOptions): Tls {
  if (tlsSelfSigned) {
    if (tlsCert !== undefined || tlsKey !== undefined)
      throw new Problem('usage', '--tls-self-signed makes a certificate: leave out --tls-cert and --tls-key.')
    return { selfSignedFor: [...new Set([...LOCAL_NAMES, host])] }
  }
  if (tlsCert === undefined && tlsKey === undefined) return null
  if (tlsCert === undefined || tlsKey === undefined)
    throw new Problem('usage', '--tls-cert and --tls-key go together.')
  return readCertificate(tlsCert, tlsKey)
}

const LOCAL_NAMES = ['localhost', '127.0.0.1', '::1']

const readCertificate = (certFile: string, keyFile: string): Certificate => ({
  cert: readFileSync(certFile, 'utf8'),
  key: readFileSync(keyFile, 'utf8'),
})

/** Nobody vouches for such a certificate: whoever wants to be sure compares. */
export async function noteSelfSigned(log: Log, { cert }: Listener): Promise<void> {
  log.warn({ sha256: await fingerprintOf(cert ?? '') }, 'TLS with a certificate made for this start')
}

/** Reads the files again, for connections from now on. What cannot be used changes nothing. */
export async function renewCertificate(
  log: Log,
  { renew }: Listener,
  { tlsCert, tlsKey }: TlsOptions,
): Promise<void> {
  if (tlsCert === undefined || tlsKey === undefined) {
    log.info({}, 'SIGHUP: there is no certificate to read again')
    return
  }
  try {
    const certificate = readCertificate(tlsCert, tlsKey)
    renew(certificate)
    log.info({ sha256: await fingerprintOf(certificate.cert) }, 'SIGHUP: the certificate was read again')
  } catch (err) {
    log.error({ err }, 'SIGHUP: the certificate stays as it was')
  }
}

/** What clients show of a certificate, to compare: SHA-256, with colons. */
async function fingerprintOf(cert: string): Promise<string> {
  const { X509Certificate } = await import('node:crypto')
  return new X509Certificate(cert).fingerprint256
}
