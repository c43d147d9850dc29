// The completion script for bash.

import { type Place, valueFlags } from './places.ts'

export function bashScript(places: readonly Place[]): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== '')
  const choices = places.flatMap(({ path, options }) =>
    options
      .filter((flag) => flag.choices.length > 0)
      .map((flag) => `    '${path}:${flag.name}') words='${flag.choices.join(' ')}' ;;`),
  )
  const words = places.map(({ path, commands, options, choices }) => {
    const all = [...commands.map(({ name }) => name), ...choices, ...options.map(({ name }) => name)]
    return `      '${path}') words='${all.join(' ')}' ;;`
  })
  return `# Completion of tranche for bash. To load it: source <(tranche completion bash)
_tranche() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]}
  local path='' words='' skip='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ -n $skip ]]; then
      skip=''
      continue
    fi
    case \${COMP_WORDS[i]} in
    ${valueFlags(places).join(' | ')}) skip=1 ;;
    -*) ;;
    *)
      case $path/\${COMP_WORDS[i]} in
      ${paths.join(' | ')}) path=$path/\${COMP_WORDS[i]} ;;
      esac
      ;;
    esac
  done
  case $path:$prev in
${choices.join('\n')}
  *)
    # Any other value may be a file, which bash completes when nothing is offered.
    [[ -n $skip ]] || case $path in
${words.join('\n')}
    esac
    ;;
  esac
  # Not mapfile: the bash of macOS has none.
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _tranche tranche
`
}
