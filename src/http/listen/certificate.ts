// The certificate that a server shows its clients: one that it is given, or one that is made for a first try.

/** PEM texts. */
export type Certificate = { cert: string; key: string }
/** What to speak: plain HTTP, TLS with this certificate, or TLS with one that is made for these names now. */
export type Tls = Certificate | { selfSignedFor: readonly string[] } | null

/** How long a certificate that was made for a first try is valid. */
const SELF_SIGNED_DAYS = 7

/** In the form that listhen takes. */
export function certificateOf(tls: NonNullable<Tls>) {
  if ('selfSignedFor' in tls) return { domains: [...tls.selfSignedFor], validityDays: SELF_SIGNED_DAYS }
  return secureContextOf(tls)
}

/** In the form that Node and listhen accept. Throws when one of them is not PEM. */
export const secureContextOf = ({ cert, key }: Certificate): Certificate => ({
  cert: fromFirstBlock(cert),
  key: fromFirstBlock(key),
})

/** listhen takes text for a file name unless it begins with a PEM block, and openssl writes comments before one. */
function fromFirstBlock(pem: string): string {
  const start = pem.indexOf('-----BEGIN')
  if (start < 0) throw new Error('The TLS certificate and its key must be PEM texts.')
  return pem.slice(start)
}
