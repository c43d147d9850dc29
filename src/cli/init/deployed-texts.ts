// The texts of deploy/ as init installs them: fitted to a file or to a server, and to the paths of the place.

import { quoted } from '../../core/shell-word.ts'
import { readDeployed } from '../../resources.ts'
import { isServer } from '../../store/address.ts'
import { type Place, SYSTEM } from './install-places.ts'

/** A backup of a file needs no network, and gets none; a backup of a server does. */
const [ALONE, CONNECTED] = [
  /^RestrictAddressFamilies=AF_UNIX$/m,
  'RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK',
]

/** A text of deploy/; for a server, without the conditions that are about the file. */
export const jobText = (name: string, place: Place): string =>
  !isServer(place.database)
    ? readDeployed(name)
    : readDeployed(name)
        .replace(/^(# Until the first start.*\n)?ConditionPathExists=.*\n/gm, '')
        .replace(ALONE, CONNECTED)

/** A text of deploy/ with the paths of another place. */
export const relocated = (text: string, place: Place): string =>
  (['program', 'settings', 'backups', 'database', 'cache'] as const).reduce(
    (moved, key) => moved.replaceAll(SYSTEM[key], () => quoted(place[key])),
    text,
  )
