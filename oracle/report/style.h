// SPDX-License-Identifier: MIT
// How the page looks: on a wide screen, on a phone, in the dark and on paper.
#pragma once

namespace draftproof {

inline constexpr char report_style[] = R"css(
:root {
  --page: #ffffff; --panel: #f5f6f8; --rule: #d5dae0; --ink: #16191d; --soft: #545c66; --strong: #1d4f91;
  --good: #17663a; --bad: #ab1f1f; --open: #7a5200; --good-panel: #edf6f0; --bad-panel: #fcefee; --open-panel: #fbf4e3;
  --text: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "DejaVu Sans", sans-serif;
  --code: ui-monospace, "SF Mono", Menlo, Consolas, "Cascadia Mono", "Liberation Mono", "DejaVu Sans Mono", monospace;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --panel: #1c2026; --rule: #363d46; --ink: #e7eaee; --soft: #a4adb8; --strong: #8cb8f5;
    --good: #76cf9a; --bad: #ff938c; --open: #ecbc5c; --good-panel: #16251c; --bad-panel: #2e1b1b;
    --open-panel: #2a2315;
  }
}
* { box-sizing: border-box; }
html { background: var(--page); color: var(--ink); -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body { margin: 0; font: 15px/1.5 var(--text); overflow-wrap: anywhere; }
main { max-width: 1048px; margin: 0 auto; padding: 28px 24px 40px; }
h1, h2, h3, h4, p, dl, dd, ol, ul, pre, figure { margin: 0; }
h1 { font: 700 30px/1.15 var(--code); letter-spacing: -.01em; }
h2 { font-size: 19px; line-height: 1.3; margin-bottom: 12px; }
h3 { font: 600 15px/1.4 var(--code); margin: 0 0 8px; }
h4 { font-size: 13px; font-weight: 600; color: var(--soft); margin-bottom: 4px; }
section { margin-top: 36px; padding-top: 20px; border-top: 1px solid var(--rule); }
p { max-width: 76ch; }
.subject, .reason, dd, li, h3, th, .message, .failure > p { white-space: pre-wrap; }
p + p { margin-top: 6px; }
ol, ul { padding-left: 1.4em; max-width: 100ch; }
li + li { margin-top: 4px; }
pre { font: 13px/1.5 var(--code); white-space: pre-wrap; background: var(--panel); padding: 8px 10px;
  border-radius: 4px; }
.command, .subject { font: 13px/1.5 var(--code); max-width: none; }
.command { color: var(--soft); }
.subject { font-weight: 600; }
.note, .none, .reason + .counts, .counts, figcaption, footer { color: var(--soft); font-size: 13px; }
.note { margin: 8px 0; }
footer { margin-top: 36px; }

.verdict { display: flex; gap: 18px; align-items: flex-start; margin-top: 14px; padding: 18px 20px;
  border: 1px solid; border-left-width: 6px; border-radius: 4px; }
.verdict h1 + p { margin-top: 4px; }
.sign { width: 1.15em; height: 1.15em; flex: none; vertical-align: -.22em; margin-right: .45em; }
.sign circle { fill: currentColor; }
.sign path { fill: none; stroke: var(--page); stroke-width: 2.6; stroke-linecap: round; stroke-linejoin: round; }
.verdict > .sign { width: 40px; height: 40px; margin: 0; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--open); }
.verdict.good { background: var(--good-panel); border-color: var(--good); }
.verdict.bad { background: var(--bad-panel); border-color: var(--bad); }
.verdict.open { background: var(--open-panel); border-color: var(--open); }
.verdict p { color: var(--ink); }

dl > div > dt { color: var(--soft); font-size: 13px; }
dl > div > dd { font: 13px/1.5 var(--code); }
.about { display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 10px 28px; }
.where { display: flex; flex-wrap: wrap; gap: 6px 32px; margin: 10px 0; }

.failure { border: 1px solid var(--rule); border-left: 6px solid var(--bad); border-radius: 4px; padding: 16px 18px; }
.failure + .failure { margin-top: 16px; }
.failure h3 .sign { color: var(--bad); }
.failure > h4, .failure > .again, .failure > .blame { margin-top: 12px; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 14px; margin-top: 10px; }
.sides pre { border-left: 3px solid var(--good); }
.sides .is pre { border-left-color: var(--bad); }
.blame { display: grid; grid-template-columns: 1fr 1fr; gap: 14px; }
.blame > div > dd { font: 14px/1.5 var(--text); }

.parting > div { display: grid; grid-template-columns: 11.5em 1fr; gap: 2px 14px; padding: 8px 12px;
  border-left: 3px solid var(--rule); background: var(--panel); }
.parting > div + div { margin-top: 4px; }
.parting > .must { border-left-color: var(--good); }
.parting > .is { border-left-color: var(--bad); }
.parting > div > dd { font-size: 14px; white-space: pre-wrap; }
.mark { color: var(--strong); font-weight: 700; }

.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(340px, 100%), 460px)); gap: 24px 40px;
  align-items: start; }
.plots + h3 { margin-top: 28px; }
.note + h3 { margin-top: 16px; }
figure { min-width: 0; }
figcaption { margin: 6px 0; }
.plot { display: block; width: 100%; height: auto; }
.plot text { font: 11px var(--text); fill: var(--soft); font-variant-numeric: tabular-nums; }
.plot text { paint-order: stroke; stroke: var(--page); stroke-width: 3px; stroke-linejoin: round; }
.plot .grid { stroke: var(--rule); stroke-width: 1; fill: none; }
.plot .axis, .plot .tick { stroke: var(--soft); stroke-width: 1; fill: none; }
.plot .bar { fill: var(--strong); }
.plot .point path, .key.point::before { stroke: var(--strong); stroke-width: 1.6; fill: none; }
.plot .point circle { fill: var(--strong); }
.plot .expected { stroke: var(--ink); stroke-width: 1.4; stroke-dasharray: 5 3; fill: none; }
.plot .wealth { stroke: var(--strong); stroke-width: 1.8; stroke-linejoin: round; fill: none; }
.plot path.level { stroke: var(--bad); stroke-width: 1.4; stroke-dasharray: 7 4; }
.plot text.level { fill: var(--bad); }
.plot .beyond { fill: var(--strong); }
.key { display: block; position: relative; padding-left: 30px; }
.key::before { content: ""; position: absolute; left: 0; top: .75em; width: 22px; }
.key.point::before { content: "●"; top: 0; text-align: center; color: var(--strong); }
.key.expected::before { border-top: 2px dashed var(--ink); }
.test { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 460px); gap: 20px 40px; align-items: start; }

table { border-collapse: collapse; font-size: 13px; }
th, td { text-align: left; vertical-align: top; padding: 5px 16px 5px 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; }
thead th { color: var(--soft); vertical-align: bottom; }
.number, .scroll tbody td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll { overflow-x: auto; overflow-wrap: normal; }
.scroll:focus-visible { outline: 2px solid var(--strong); outline-offset: 2px; }
.scroll thead th + th { text-align: right; }
.checks { width: 100%; }
.checks th[scope="row"] { font-family: var(--code); }
.checks th, .checks td.outcome { overflow-wrap: normal; }
.checks td.outcome { white-space: nowrap; font-weight: 600; }
.checks td.message { width: 100%; padding-right: 0; }
details { margin-top: 6px; }
summary { cursor: pointer; color: var(--strong); font-size: 14px; }
details > :not(summary) { margin-top: 8px; }
.runs { font: 13px/1.5 var(--code); padding-left: 3em; }

.tall { max-height: 88vh; overflow: auto; margin-top: 8px; }
.matrix { border-collapse: separate; border-spacing: 0; font-size: 13px; line-height: 1.35; }
.legend { margin-top: 8px; max-width: none; color: var(--soft); font-size: 13px; }
.legend span { display: inline-block; margin-right: 14px; }
.matrix th, .matrix td { padding: 1px 0; border-bottom: 0; white-space: nowrap; vertical-align: middle; }
.matrix td { width: 27px; min-width: 27px; text-align: center; color: var(--soft); font-family: var(--code); }
.matrix i, .legend i { display: inline-block; width: 24px; border-radius: 3px; text-align: center;
  font: 700 13px/16px var(--code);
  background: var(--strong); color: var(--page); border: 1px solid var(--strong); }
.matrix i.also, .legend i.also { background: transparent; color: var(--strong); }
.matrix i.ill, .legend i.ill { background: var(--bad); border-color: var(--bad); }
.matrix td.harm { text-align: left; padding: 2px 12px; font-family: inherit; }
.matrix th b { display: inline-block; min-width: 3.2em; font-family: var(--code); }
.matrix th[scope="row"] { font-weight: 400; padding-right: 12px; position: sticky; left: 0; z-index: 1;
  background: var(--page); }
.matrix thead th { position: sticky; top: 0; background: var(--page); z-index: 2; text-align: left;
  vertical-align: bottom; padding: 6px 0; border-bottom: 1px solid var(--rule); }
.matrix thead th:first-child { left: 0; z-index: 3; }
.matrix thead .harm { padding-left: 12px; text-align: left; }
.matrix thead span { display: block; writing-mode: vertical-rl; transform: rotate(180deg); font: 12px/27px var(--code);
  color: var(--ink); }
.matrix tbody tr:nth-child(5n) > * { border-bottom: 1px solid var(--rule); }
.matrix tbody .wrong > :is(th, td) { background: var(--bad-panel); }
.matrix .wrong em { color: var(--bad); font-style: normal; font-weight: 700; }
.matrix tfoot > tr > * { border-top: 1px solid var(--rule); font-weight: 600; }
.causes > div { display: grid; grid-template-columns: 16em 1fr; gap: 0 16px; padding: 3px 0; }
.causes > div > dt, .causes > div > dd { font: 13px/1.5 var(--text); }
.causes b { display: inline-block; min-width: 3.4em; font-family: var(--code); color: var(--ink); }

@media (max-width: 720px) {
  main { padding: 18px 14px 32px; }
  h1 { font-size: 23px; }
  .verdict { gap: 12px; padding: 14px; }
  .verdict > .sign { width: 30px; height: 30px; }
  .about { grid-template-columns: 1fr 1fr; gap: 8px 16px; }
  .sides, .blame, .test, .parting > div, .causes > div { grid-template-columns: minmax(0, 1fr); }
  .failure { padding: 12px; }
  .checks thead { position: absolute; clip-path: inset(50%); }
  .checks tr { display: grid; grid-template-columns: 1fr auto auto; gap: 0 12px; padding: 8px 0;
    border-bottom: 1px solid var(--rule); }
  .checks th, .checks td { padding: 0; border: 0; }
  .checks td.message { grid-column: 1 / -1; width: auto; }
  .matrix th[scope="row"] { white-space: normal; min-width: 128px; padding-right: 6px; }
  .matrix th b { display: block; }
  .matrix .harm { display: none; }
}
@media print {
  body { font-size: 11pt; }
  main { max-width: none; padding: 0; }
  .tall { max-height: none; }
  .scroll { overflow: visible; }
  .matrix thead th, .matrix th[scope="row"] { position: static; }
  details::details-content { content-visibility: visible; block-size: auto; }
  figure, .failure, tr, .verdict { break-inside: avoid; }
  h2, h3, h4, .note { break-after: avoid; }
  tfoot { display: table-row-group; }
  .verdict, .matrix i, .plot { print-color-adjust: exact; }
}
)css";

}  // namespace draftproof
