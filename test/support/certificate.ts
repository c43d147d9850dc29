// Certificates made here, so that no test needs a tool that the machine may lack: an authority and its certificates.
// DER is written directly: a tag, a length and a value, and the values are nested in turn (RFC 5280, section 4.1).

import { createHash, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { formatInstant, type Instant } from '../../src/core/time.ts'
import { temporaryFolder } from './database.ts'

/** Both in PEM. */
export type Certificate = { cert: string; key: string }
export type Authority = {
  folder: string
  /** The authority's own certificate, for --webhook-ca. */
  caFile: string
  /** A certificate for names and addresses such as `DNS:hook.example` or `IP:127.0.0.1`. */
  issue: (...names: string[]) => Certificate
}

export function makeAuthority(t: Pick<TestContext, 'after'>): Authority {
  const folder = temporaryFolder(t)
  const caFile = join(folder, 'ca.pem')
  const keys = newKeys()
  const issuer = { name: nameOf('Test Authority'), ...keys }
  const authority = encode({ subject: issuer.name, keys, issuer, serial: 1, extensions: [IS_AUTHORITY] })
  writeFileSync(caFile, authority.cert)
  writeFileSync(join(folder, 'ca.key'), authority.key)
  let issued = 1
  return {
    folder,
    caFile,
    issue(...names) {
      issued += 1
      const extensions = [IS_NONE, alternatives(names)]
      return encode({ subject: nameOf('receiver'), keys: newKeys(), issuer, serial: issued, extensions })
    },
  }
}

/** A self-signed certificate for 127.0.0.1. */
export function makeCertificate(until?: Instant): Certificate {
  const keys = newKeys()
  const issuer = { name: nameOf('tranche test'), ...keys }
  const extensions = [IS_AUTHORITY, alternatives(['IP:127.0.0.1'])]
  return encode({ subject: issuer.name, keys, issuer, serial: 1, extensions, ...(until && { until }) })
}

type Keys = { publicKey: KeyObject; privateKey: KeyObject }
type Contents = {
  subject: Buffer
  keys: Keys
  issuer: Keys & { name: Buffer }
  serial: number
  extensions: readonly Buffer[]
  /** 2049 by default. */
  until?: Instant
}

const [BEGIN, END] = [Date.UTC(2020, 0, 1) as Instant, Date.UTC(2049, 11, 31, 23, 59, 59) as Instant]

function encode(contents: Contents): Certificate {
  const { subject, keys, issuer, serial, extensions, until = END } = contents
  const body = sequence(
    tlv(0xa0, integer(2)), // version 3
    integer(serial),
    ECDSA_SHA256,
    issuer.name,
    sequence(utcTime(BEGIN), utcTime(until)),
    subject,
    spki(keys),
    tlv(0xa3, sequence(...extensions, ...identifiers(keys, issuer))),
  )
  const signature = tlv(0x03, Buffer.concat([Buffer.of(0), sign('sha256', body, issuer.privateKey)]))
  const lines = sequence(body, ECDSA_SHA256, signature)
    .toString('base64')
    .replace(/.{1,64}/g, '$&\n')
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}-----END CERTIFICATE-----\n`,
    key: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

/** The identifiers of both keys, which tell two authorities of one name apart. */
function identifiers(own: Keys, issuer: Keys): Buffer[] {
  const ofKey = (keys: Keys): Buffer => createHash('sha1').update(spki(keys)).digest()
  return [
    sequence(oid('551d0e'), tlv(0x04, tlv(0x04, ofKey(own)))),
    sequence(oid('551d23'), tlv(0x04, sequence(tlv(0x80, ofKey(issuer))))),
  ]
}

const spki = ({ publicKey }: Keys): Buffer => publicKey.export({ type: 'spki', format: 'der' })
const newKeys = () => generateKeyPairSync('ec', { namedCurve: 'P-256' })

function tlv(tag: number, value: Buffer): Buffer {
  const { length } = value
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), value])
}

const sequence = (...parts: Buffer[]): Buffer => tlv(0x30, Buffer.concat(parts))
const integer = (value: number): Buffer => tlv(0x02, Buffer.of(value))
const oid = (hex: string): Buffer => tlv(0x06, Buffer.from(hex, 'hex'))
/** With a year of two digits, from 1950 to 2049. */
const utcTime = (at: Instant): Buffer =>
  tlv(0x17, Buffer.from(`${formatInstant(at).slice(2, 19).replace(/\D/g, '')}Z`))
const nameOf = (common: string): Buffer =>
  sequence(tlv(0x31, sequence(oid('550403'), tlv(0x0c, Buffer.from(common)))))

const TRUE = tlv(0x01, Buffer.of(0xff))
const ECDSA_SHA256 = sequence(oid('2a8648ce3d040302'))
const IS_AUTHORITY = sequence(oid('551d13'), TRUE, tlv(0x04, sequence(TRUE)))
const IS_NONE = sequence(oid('551d13'), TRUE, tlv(0x04, sequence()))

function alternatives(names: readonly string[]): Buffer {
  const encoded = names.map((name) => {
    const [, kind, value = ''] = /^(DNS|IP):(.+)$/.exec(name) ?? []
    if (kind === 'DNS') return tlv(0x82, Buffer.from(value))
    if (kind === 'IP') return tlv(0x87, Buffer.from(value.split('.').map(Number)))
    throw new Error(`no name of a certificate: ${name}`)
  })
  return sequence(oid('551d11'), tlv(0x04, sequence(...encoded)))
}
