// Which certificate serve shows: one from files or, for a first try, one that is made at the start.

import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { Problem } from '../../core/problem.ts'
import type { Certificate, Tls } from '../../http/listen/certificate.ts'
import type { Listener } from '../../http/listen.ts'
import type { Log } from '../../log.ts'
import { readInput, readRegular } from '../shared/read-input.ts'

export type TlsOptions = { host: string; tlsCert?: string; tlsKey?: string; tlsSelfSigned?: true }

/**
 * Throws usage when the options contradict each other, the error of the file system for a file that cannot be read, and
 * bad_file for one that TLS cannot use.
 */
export function tlsOf({ host, tlsCert, tlsKey, tlsSelfSigned }: TlsOptions): Tls {
  if (tlsSelfSigned) {
    if (tlsCert !== undefined || tlsKey !== undefined)
      throw new Problem('usage', '--tls-self-signed makes a certificate: leave out --tls-cert and --tls-key.')
    return { selfSignedFor: [...new Set([...LOCAL_NAMES, host])] }
  }
  if (tlsCert === undefined && tlsKey === undefined) return null
  if (tlsCert === undefined || tlsKey === undefined)
    throw new Problem('usage', '--tls-cert and --tls-key go together.')
  return readCertificate(tlsCert, tlsKey, readInput)
}

const LOCAL_NAMES = ['localhost', '127.0.0.1', '::1']

/** TLS would describe the problem in terms of its parsers, and not say which file it is in. */
function readCertificate(certFile: string, keyFile: string, textOf: (file: string) => string): Certificate {
  const [cert, key] = [textOf(certFile), textOf(keyFile)]
  const read = <T>(parse: () => T, complaint: string): T => {
    try {
      return parse()
    } catch (error) {
      throw new Problem('bad_file', `${complaint} (${(error as Error).message}).`)
    }
  }
  const certificate = read(
    () => new X509Certificate(cert),
    `--tls-cert: ${certFile} has no certificate in PEM`,
  )
  const privateKey: KeyObject = read(
    () => createPrivateKey(key),
    `--tls-key: ${keyFile} has no private key in PEM without a password`,
  )
  if (certificate.checkPrivateKey(privateKey)) return { cert, key }
  throw new Problem(
    'bad_file',
    `--tls-key: ${keyFile} is not the key of the first certificate in ${certFile}.`,
  )
}

/** Nobody vouches for such a certificate; to be sure, a person compares fingerprints. */
export function noteSelfSigned(log: Log, { cert }: Listener): void {
  log.warn({ sha256: fingerprintOf(cert ?? '') }, 'TLS with a certificate made for this start')
}

/** Reads the files again, for new connections. Files that cannot be used change nothing. */
export function renewCertificate(log: Log, { renew }: Listener, { tlsCert, tlsKey }: TlsOptions): void {
  if (tlsCert === undefined || tlsKey === undefined) {
    log.info({}, 'SIGHUP: there is no certificate to read again')
    return
  }
  try {
    // This process answers calls: it waits for no pipe.
    const certificate = readCertificate(tlsCert, tlsKey, readRegular)
    renew(certificate)
    log.info({ sha256: fingerprintOf(certificate.cert) }, 'SIGHUP: the certificate was read again')
  } catch (err) {
    log.error({ err }, 'SIGHUP: the certificate stays as it was')
  }
}

/** A certificate's fingerprint as clients show it: SHA-256, with colons. */
const fingerprintOf = (cert: string): string => new X509Certificate(cert).fingerprint256
