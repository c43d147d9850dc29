// A certificate for 127.0.0.1 that signs itself, made here so that no test needs a tool the machine may not have.
// DER by hand: a tag, a length and a value, and the values are again such (RFC 5280, section 4.1).

import { generateKeyPairSync, sign } from 'node:crypto'

/** A PEM certificate for 127.0.0.1, valid until 2049, and its key. */
export function makeCertificate(): { cert: string; key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const algorithm = sequence(oid('2a8648ce3d040302')) // ecdsa-with-SHA256
  const name = sequence(tlv(0x31, sequence(oid('550403'), tlv(0x0c, Buffer.from('tranche test')))))
  const validity = sequence(utcTime('200101000000Z'), utcTime('491231235959Z'))
  const addresses = sequence(tlv(0x87, Buffer.from([127, 0, 0, 1])))
  const basic = sequence(oid('551d13'), TRUE, tlv(0x04, sequence(TRUE))) // a certificate authority
  const alternative = sequence(oid('551d11'), tlv(0x04, addresses))
  const body = sequence(
    tlv(0xa0, integer(2)), // version 3
    integer(1),
    algorithm,
    name,
    validity,
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tlv(0xa3, sequence(basic, alternative)),
  )
  const signature = tlv(0x03, Buffer.concat([Buffer.of(0), sign('sha256', body, privateKey)]))
  const lines = sequence(body, algorithm, signature).toString('base64').replace(/.{64}/g, '$&\n')
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

function tlv(tag: number, value: Buffer): Buffer {
  const { length } = value
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), value])
}

const TRUE = tlv(0x01, Buffer.of(0xff))
const sequence = (...parts: Buffer[]): Buffer => tlv(0x30, Buffer.concat(parts))
const integer = (value: number): Buffer => tlv(0x02, Buffer.of(value))
const oid = (hex: string): Buffer => tlv(0x06, Buffer.from(hex, 'hex'))
const utcTime = (text: string): Buffer => tlv(0x17, Buffer.from(text))
