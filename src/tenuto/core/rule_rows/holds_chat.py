"""For whom rules of the chat dialect hold, in patterns of `row/model`."""

from __future__ import annotations

__all__ = ["CASES", "HOLDS"]

HOLDS = r"""
OAC-OAI-01 || chat/* openai/* azure/* moonshot/* groq/* xai/* meta/* vertex/* together/* fireworks/* cerebras/* sambanova/* nvidia/*
OAC-OAI-02 || chat/* openai/* azure/* groq/* xai/* meta/* vertex/* together/* fireworks/* cerebras/* sambanova/* nvidia/*
OAC-OAI-03 || openai/*
OAC-OAI-04 || openai/* azure/*
OAC-OAI-05 || openai/o[1-9]* openai/gpt-[56]* azure/o[1-9]* azure/gpt-[56]*
OAC-OAI-06 || openai/o[1-9]* openai/gpt-[56]* azure/o[1-9]* azure/gpt-[56]*
OAC-OAI-07 || openai/gpt-5.[4-9]* openai/gpt-6*
OAC-OAI-08 || openai/gpt-[34]* openai/chatgpt-* openai/o[1-4]* openai/gpt-5 openai/gpt-5-* openai/gpt-5.[01]* azure/gpt-[34]* azure/o[1-4]* azure/gpt-5 azure/gpt-5-* azure/gpt-5.[01]*
OAC-OAI-09 || openai/* azure/*
OAC-OAI-10 || openai/* azure/*
OAC-OAI-11 || openai/* azure/* deepseek/* groq/*
OAC-OAI-12 || openai/* azure/*
OAC-OAI-13 || openai/?*
OAC-OAI-14 || openai/* azure/*
OAC-OAI-16 || openai/o[1-9]* openai/gpt-[56]* azure/o[1-9]* azure/gpt-[56]*
OAC-AZ-02 || vllm/* azure/*[Dd]eep[Ss]eek* azure/*[Ll]lama* azure/*[Mm]istral* azure/*[Mm]inistral* azure/*[Cc]odestral* azure/*[Gg]rok* azure/*[Kk]imi* azure/*[Qq]wen* azure/*[Cc]ohere* azure/*[Cc]ommand* azure/*[Pp]hi-* azure/*[Gg][Ll][Mm]-*
OAC-DS-01 || deepseek/ deepseek/deepseek-v[3-9]* deepseek/deepseek-chat deepseek/deepseek-flash* deepseek/deepseek-pro* deepseek/deepseek-reasoner*
OAC-DS-02 || deepseek/deepseek-v[4-9]* deepseek/deepseek-flash* deepseek/deepseek-pro*
OAC-DS-03 || deepseek/*
OAC-DS-04 || deepseek/*
OAC-DS-05 || deepseek/*
OAC-DS-06 || deepseek/ deepseek/deepseek-v[4-9]* deepseek/deepseek-flash* deepseek/deepseek-pro* deepseek/deepseek-reasoner*
OAC-KIMI-01 || moonshot/ moonshot/kimi-k2.[5-9]* moonshot/kimi-k[3-9]*
OAC-KIMI-02 || moonshot/kimi-k2.[6-9]* moonshot/kimi-k[3-9]*
OAC-KIMI-03 || moonshot/kimi-k2.[56]* moonshot/kimi-k3*
OAC-KIMI-04 || moonshot/kimi-k3*
OAC-KIMI-05 || moonshot/*
OAC-MIS-02 || mistral/*
OAC-MIS-03 || mistral/* nvidia/*mistral*
OAC-MIS-04 || mistral/*
OAC-MIS-05 || mistral/*
OAC-MIS-06 || mistral/*
OAC-GROQ-01 || groq/*
OAC-GROQ-02 || groq/llama* groq/meta-llama/* groq/moonshotai/kimi-k2-instruct* groq/gemma* groq/mistral* groq/mixtral* groq/allam*
OAC-GROQ-04 || groq/*
OAC-XAI-01 || xai/grok-3-mini* xai/grok-[4-9]* xai/grok-code* xai/grok-build*
OAC-XAI-02 || xai/grok-[4-9]*
OAC-OR-01 || openrouter/?*
OAC-OR-02 || openrouter/*
OAC-OR-03 || openrouter/*anthropic/*
OAC-OR-04 || openrouter/*
OAC-FW-01 || fireworks/*
OAC-TOG-01 || together/*
OAC-PPLX-02 || perplexity/*
OAC-COH-01 || cohere/*
OAC-OLL-01 || ollama/*
OAC-OLL-02 || ollama/* lmstudio/* llamacpp/* vllm/*
OAC-ZAI-01 || zai/*
OAC-ZAI-02 || zai/[Gg][Ll][Mm]-4.[6-9]* zai/[Gg][Ll][Mm]-[5-9]*
OAC-ALI-01 || alibaba/qwen3-[0-9]*b alibaba/qwen3-*-thinking* alibaba/qwq-*
OAC-ALI-02 || alibaba/qwen3.[5-9]*
OAC-ALI-03 || alibaba/*
OAC-MM-01 || minimax/ minimax/*[Mm][2-9]*
"""

CASES = r"""
OAC-OAI-07 effort-by-default || openai/gpt-5.[6-9]* openai/gpt-6*
OAC-DS-01 thinks-by-default || deepseek/ deepseek/deepseek-v[4-9]* deepseek/deepseek-flash* deepseek/deepseek-pro* deepseek/deepseek-reasoner*
OAC-KIMI-01 thinks-by-default || moonshot/ moonshot/kimi-k2.[6-9]* moonshot/kimi-k[3-9]*
OAC-XAI-02 any || xai/grok-4 xai/grok-4-* xai/grok-4.1* xai/grok-4.20*
OAC-XAI-02 none || xai/grok-4.[5-9]* xai/grok-[5-9]*
OAC-XAI-02 xhigh || xai/grok-4.[3-5]*
OAC-OR-01 no-tools || openrouter/*perplexity/*
OAC-OR-01 no-choice || openrouter/*deepseek/deepseek-r1*
OAC-OR-02 reasoning-back || openrouter/*moonshotai/kimi-k2.[5-9]* openrouter/*moonshotai/kimi-k[3-9]*
OAC-OR-02 thinks-by-default || openrouter/*moonshotai/kimi-k2.[6-9]* openrouter/*moonshotai/kimi-k[3-9]*
OAC-OR-04 signed-calls || openrouter/*google/gemini-[3-9]*
OAC-OR-04 anthropic-claude-v1 || openrouter/*anthropic/*
OAC-OR-04 google-gemini-v1 || openrouter/*google/*
OAC-OR-04 openai-responses-v1 || openrouter/*openai/*
"""
"""Where one rule has several cases, each for its own models: `id case || pattern pattern ...`."""
