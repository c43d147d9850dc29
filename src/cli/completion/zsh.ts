// The completion script for zsh.

import { singleQuoted } from '../../core/shell-word.ts'
import { type Place, valueFlags, type Word } from './places.ts'

export function zshScript(places: readonly Place[]): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== '')
  const choices = places.flatMap(({ path, options }) =>
    options
      .filter((flag) => flag.choices.length > 0)
      .map(
        (flag) =>
          `    ${singleQuoted(`${path}:${flag.name}`)}) compadd -- ${flag.choices.join(' ')}; return ;;`,
      ),
  )
  const words = places.map(({ path, commands, options, choices }) => {
    const named = choices.map((name) => ({ name, description: name }))
    return `    ${singleQuoted(path)})\n      commands=(${listOf([...commands, ...named])})\n      options=(${listOf(options)}) ;;`
  })
  return `#compdef tranche
# Completion of tranche for zsh. To load it: source <(tranche completion zsh)
_tranche() {
  local place='' skip='' word
  local -a commands options
  for word in "\${(@)words[2,CURRENT-1]}"; do
    if [[ -n $skip ]]; then
      skip=''
      continue
    fi
    case $word in
    ${valueFlags(places).join(' | ')}) skip=1 ;;
    -*) ;;
    *)
      case $place/$word in
      ${paths.join(' | ')}) place=$place/$word ;;
      esac
      ;;
    esac
  done
  case $place:$words[CURRENT-1] in
${choices.join('\n')}
  esac
  if [[ -n $skip ]]; then
    _files
    return
  fi
  case $place in
${words.join('\n')}
  esac
  if [[ $words[CURRENT] == -* ]]; then
    _describe option options
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}
if [[ $funcstack[1] == _tranche ]]; then
  _tranche "$@"
else
  compdef _tranche tranche
fi
`
}

const listOf = (words: readonly Word[]): string =>
  words
    .map(({ name, description }) => singleQuoted(`${name}:${description.replaceAll(':', '\\:')}`))
    .join(' ')
