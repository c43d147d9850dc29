// The completion script for fish.

import { type Place, valueFlags } from './places.ts'

export function fishScript(places: readonly Place[]): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== '')
  return `# Completion of tranche for fish. To load it: tranche completion fish | source
function __tranche_at
    set -l place ''
    set -l skip ''
    set -l tokens (commandline -opc)
    for word in $tokens[2..-1]
        if test -n "$skip"
            set skip ''
            continue
        end
        switch $word
            case ${valueFlags(places).join(' ')}
                set skip 1
            case '-*'
            case '*'
                if contains -- $place/$word ${paths.join(' ')}
                    set place $place/$word
                end
        end
    end
    test "$place" = "$argv[1]"
end
complete -c tranche -e
${places.flatMap(linesOf).join('\n')}
`
}

function linesOf({ path, commands, options, choices }: Place): string[] {
  const at = `complete -c tranche -n ${quote(`__tranche_at '${path}'`)}`
  // A command of commands takes no file.
  const files = commands.length + choices.length > 0 ? ' -f' : ''
  return [
    ...commands.map(({ name, description }) => `${at} -f -a ${name} -d ${quote(description)}`),
    ...choices.map((name) => `${at} -f -a ${name}`),
    ...options.map(({ name, description, takesValue, choices }) => {
      const value = choices.length > 0 ? ` -x -a ${quote(choices.join(' '))}` : takesValue ? ' -r' : files
      return `${at} -l ${name.slice(2)}${value} -d ${quote(description)}`
    }),
  ]
}

const quote = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
