// Which addresses count as one client, where connections and wrong tokens are counted.

import ipaddr from 'ipaddr.js'

/** Null for this machine itself. The owner of an IPv6 network has all its addresses. */
export function networkOf(peer: string | undefined): string | null {
  if (peer === undefined || !ipaddr.isValid(peer)) return null
  const address = ipaddr.process(peer)
  if (address.range() === 'loopback') return null
  return 'parts' in address ? address.parts.slice(0, 4).join(':') : address.toString()
}
