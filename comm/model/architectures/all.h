#pragma once

#include "comm/model/architecture.h"

// All supported model families. comm/model/architecture.cc lists them in a table.
namespace quire::architectures {

extern const Architecture kLlama, kMistral, kMinistral, kMinistral3;  // llama.cc
extern const Architecture kLlama4;                                    // llama4.cc
extern const Architecture kQwen2, kQwen3;                             // qwen.cc
extern const Architecture kQwen2Vl, kQwen25Vl, kQwen3Vl;              // qwen.cc
extern const Architecture kPhi3;                                      // phi3.cc
extern const Architecture kGranite, kGraniteMoe, kGraniteHybrid;      // granite.cc
extern const Architecture kSmolLm3;                                   // smollm3.cc
extern const Architecture kOlmo2, kOlmo3;                             // olmo.cc
extern const Architecture kGemma, kGemma2, kGemma3;                   // gemma.cc
extern const Architecture kGemma4;                                    // gemma4.cc
extern const Architecture kGlm, kGlm4;                                // glm.cc
extern const Architecture kBloom;                                     // bloom.cc
extern const Architecture kMpt;                                       // mpt.cc
extern const Architecture kGptNeoX;                                   // gpt_neox.cc
extern const Architecture kGpt2;                                      // gpt2.cc
extern const Architecture kOpt;                                       // opt.cc
extern const Architecture kFalcon;                                    // falcon.cc
extern const Architecture kStarCoder2;                                // starcoder2.cc
extern const Architecture kCohere, kCohere2;                          // cohere.cc
extern const Architecture kPhi;                                       // phi.cc
extern const Architecture kStableLm;                                  // stablelm.cc
extern const Architecture kMixtral;                                   // mixtral.cc
extern const Architecture kQwen2Moe, kQwen3Moe;                       // qwen_moe.cc
extern const Architecture kOlmoe;                                     // olmoe.cc
extern const Architecture kGlm4Moe, kSolarOpen;                       // glm4_moe.cc
extern const Architecture kPhiMoe;                                    // phimoe.cc
extern const Architecture kDots1;                                     // dots1.cc
extern const Architecture kMiniMaxM2;                                 // minimax_m2.cc
extern const Architecture kErnie, kErnieMoe;                          // ernie.cc
extern const Architecture kLfm2, kLfm2Moe, kLfm3;                     // lfm2.cc
extern const Architecture kQwen3Next, kQwen35Text, kQwen35MoeText;    // qwen_hybrid.cc
extern const Architecture kBamba;                                     // bamba.cc
extern const Architecture kFalconH1;                                  // falcon_h1.cc
extern const Architecture kNemotronH, kNemotronHMoe;                  // nemotron_h.cc
extern const Architecture kSeedOss;                                   // seed_oss.cc
extern const Architecture kArcee;                                     // arcee.cc
extern const Architecture kExaone4, kExaoneMoe;                       // exaone4.cc
extern const Architecture kAfmoe;                                     // afmoe.cc
extern const Architecture kHunyuanDense, kHunyuanMoe, kHunyuan3;      // hunyuan.cc
extern const Architecture kCwm;                                       // cwm.cc
extern const Architecture kMimoV2;                                    // mimo_v2.cc
extern const Architecture kGptOss;                                    // gpt_oss.cc
extern const Architecture kDeepseekV2, kDeepseekV3, kGlm4MoeLite;     // deepseek.cc
extern const Architecture kBert, kRoberta, kXlmRoberta, kCamembert;   // bert.cc
extern const Architecture kElectra;                                   // bert.cc
extern const Architecture kModernBert;                                // modern_bert.cc
extern const Architecture kDistilBert;                                // distilbert.cc
extern const Architecture kMpNet;                                     // mpnet.cc
extern const Architecture kNomicBert;                                 // nomic_bert.cc
extern const Architecture kJinaV3;                                    // jina_v3.cc
extern const Architecture kNew, kGte;                                 // gte.cc
extern const Architecture kJinaBert;                                  // jina_bert.cc

/// Reads the files of kJinaBert, which have the same family name as BERT's files.
ModelSpec JinaBertFromHf(const HfConfig& config);

}  // namespace quire::architectures
