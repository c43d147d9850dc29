// The certificate that serve shows, and its renewal: one from files, which SIGHUP reads again, or one generated at the
// start for a first try; and the recording of its expiry.

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { CERTIFICATE_OLD_SHARE, isLeft } from '../../core/findings.ts'
import { Problem, reasonInWords, usage } from '../../core/problem.ts'
import { formatInstant, HOUR_MS, type Instant } from '../../core/time.ts'
import type { Listener } from '../../http/listen.ts'
import { type Certificate, secureContextOf, type Tls } from '../../http/tls.ts'
import type { Log } from '../../log.ts'
import type { ResultStore } from '../../store/store.ts'
import { readInput, readRegular } from '../input-file.ts'

export type TlsOptions = { host: string; tlsCert?: string; tlsKey?: string; tlsSelfSigned?: true }

/** Throws usage for options that contradict each other, and bad_file for a file that TLS cannot use. */
export function tlsOf({ host, tlsCert, tlsKey, tlsSelfSigned }: TlsOptions): Tls {
  if (tlsSelfSigned) {
    if (tlsCert !== undefined || tlsKey !== undefined)
      throw usage('--tls-self-signed makes a certificate: leave out --tls-cert and --tls-key.')
    return { selfSignedFor: [...new Set(['localhost', '127.0.0.1', '::1', host])] }
  }
  if (tlsCert === undefined && tlsKey === undefined) return null
  if (tlsCert === undefined || tlsKey === undefined) throw usage('--tls-cert and --tls-key go together.')
  return readCertificate(tlsCert, tlsKey, readInput)
}

/** TLS would describe the problem in terms of its parsers, without naming the file. */
function readCertificate(certFile: string, keyFile: string, textOf: (file: string) => string): Certificate {
  const [cert, key] = [textOf(certFile), textOf(keyFile)]
  const read = <T>(parse: () => T, complaint: string): T => {
    try {
      return parse()
    } catch {
      throw new Problem('bad_file', complaint)
    }
  }
  const certificate = read(
    () => new X509Certificate(cert),
    `--tls-cert: ${certFile} has no certificate in PEM.`,
  )
  const privateKey = read(
    () => createPrivateKey(key),
    `--tls-key: ${keyFile} has no private key in PEM without a password.`,
  )
  if (!certificate.checkPrivateKey(privateKey))
    throw new Problem(
      'bad_file',
      `--tls-key: ${keyFile} is not the key of the first certificate in ${certFile}.`,
    )
  try {
    createSecureContext(secureContextOf({ cert, key }))
  } catch (error) {
    throw new Problem(
      'bad_file',
      `--tls-cert: ${certFile}, or a certificate after its first: ${reasonInWords(error)}.`,
    )
  }
  return { cert, key }
}

type Shown = { names: string; serial: string; sha256: string; from: Instant; until: Instant }

/** The first certificate of a chain: it is the one for the names. */
function shownOf(cert: string): Shown {
  const { subjectAltName, subject, serialNumber, fingerprint256, validFromDate, validToDate } =
    new X509Certificate(cert)
  return {
    names: subjectAltName ?? subject,
    serial: serialNumber,
    sha256: fingerprint256,
    from: validFromDate.getTime() as Instant,
    until: validToDate.getTime() as Instant,
  }
}

const shownJson = ({ names, serial, sha256, until }: Shown) => ({
  names,
  serial,
  sha256,
  not_after: formatInstant(until),
})

/** An expired one is shown all the same: a service that does not start helps nobody, and some clients may accept it. */
function noteShown(log: Log, shown: Shown, now: Instant, what: string, more: object = {}): void {
  const fields = { ...shownJson(shown), ...more }
  if (now >= shown.until) log.error(fields, `${what}; it has ended, and clients refuse it`)
  else if (now < shown.from) log.error(fields, `${what}; it is not valid yet, and clients refuse it`)
  else if (isLeft(CERTIFICATE_OLD_SHARE, shown, now)) log.warn(fields, `${what}; it ends soon`)
  else log.info(fields, what)
}

/** How often the expiry is recorded: well within the time for which findings trust it. */
const TOLD_EVERY_MS = 6 * HOUR_MS

type Parts = {
  log: Log
  listener: Listener
  options: TlsOptions
  clock: () => Instant
  /** The name of this machine and port in findings. */
  machine: string
  port: string
  onShown: (until: Instant) => void
}

export type ShownCertificate = {
  /** Reads the files again, for new connections. Files that cannot be used change nothing. */
  renew: () => void
  /** Records in the database which certificate is shown, now and from then on. */
  keepIn: (store: ResultStore) => void
}

export function showCertificate(parts: Parts): ShownCertificate {
  const { log, listener, options, clock, machine, port, onShown } = parts
  const { tlsCert, tlsKey, tlsSelfSigned } = options
  let shown: Shown | null = null
  let store: ResultStore | null = null

  // A failure is reported elsewhere: the database may have moved, be full or away.
  const tell = (): void =>
    void (
      shown &&
      store?.noteResult({
        job: 'certificate',
        host: `${machine}:${port}`,
        ok: true,
        beginsAt: shown.from,
        endsAt: shown.until,
        message: shown.names,
        backups: null,
      })
    )?.catch(() => {})

  function show(cert: string): Shown {
    shown = shownOf(cert)
    onShown(shown.until)
    tell()
    return shown
  }

  if (listener.cert !== null && tlsSelfSigned)
    // No authority vouches for it: a person compares the fingerprint. It outlasts any trial.
    log.warn({ sha256: shownOf(listener.cert).sha256 }, 'TLS with a certificate made for this start')
  else if (listener.cert !== null) noteShown(log, show(listener.cert), clock(), 'TLS with this certificate')

  return {
    keepIn(opened) {
      // First removes records of this machine's listeners that may be gone. A running one records itself again.
      opened
        .forgetCertificates(machine)
        .catch(() => {})
        .finally(() => {
          store = opened
          tell()
        })
      setInterval(tell, TOLD_EVERY_MS).unref()
    },
    renew() {
      if (tlsCert === undefined || tlsKey === undefined) {
        log.info({}, 'SIGHUP: there is no certificate to read again')
        return
      }
      const before = shown
      try {
        // This process answers calls: it waits for no pipe.
        const certificate = readCertificate(tlsCert, tlsKey, readRegular)
        listener.renew(certificate)
        const now = show(certificate.cert)
        const changed = before?.sha256 !== now.sha256
        const result = changed ? 'new connections get the new one' : 'is the one that was shown before'
        noteShown(log, now, clock(), `SIGHUP: the certificate was read again, and ${result}`, { changed })
      } catch (err) {
        log.error({ ...(before && shownJson(before)), err }, 'SIGHUP: the certificate stays as it was')
      }
    },
  }
}
