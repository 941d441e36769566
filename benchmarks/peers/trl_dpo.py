"""The peer of benchmarks/dpo.py: TRL's DPOTrainer on the same pairs, in the same order. Run by its own interpreter:

python trl_dpo.py job.json result.json
"""

import json
import sys


def main(job_path: str, result_path: str) -> None:
    job = json.load(open(job_path))
    import torch
    from clock import Clock, peak_bytes
    from datasets import Dataset
    from torch.utils.data import SequentialSampler
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
    from trl import DPOConfig, DPOTrainer

    torch.set_num_threads(job["threads"])
    tokenizer = AutoTokenizer.from_pretrained(job["model"])
    rows = [{name: row[name] for name in ("prompt", "chosen", "rejected")} for row in job["theirs"]]
    reference = AutoModelForCausalLM.from_pretrained(job["reference"], dtype=job["dtype"]) if job["reference"] else None
    clock = Clock()

    class Timed(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            clock.step()

    class InOrder(DPOTrainer):
        def _get_train_sampler(self, train_dataset=None):
            return SequentialSampler(self.train_dataset)

    settings = DPOConfig(
        output_dir=job["folder"],
        per_device_train_batch_size=job["micro"],
        gradient_accumulation_steps=job["batch"] // job["micro"],
        precompute_ref_log_probs=True,
        num_train_epochs=1,
        learning_rate=job["learning_rate"],
        lr_scheduler_type="constant",
        beta=job["beta"],
        max_length=None,
        gradient_checkpointing=job["gradient_checkpointing"],
        use_cpu=not torch.cuda.is_available(),
        bf16=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
        model_init_kwargs={"dtype": job["dtype"]},
    )
    trainer = InOrder(
        model=job["model"], ref_model=reference, args=settings, train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer, callbacks=[Timed()],
    )  # fmt: skip
    trainer.train()
    result = {
        "seconds": clock.seconds,
        "losses": [line["loss"] for line in trainer.state.log_history if "loss" in line],
        "peak_bytes": peak_bytes(),
    }
    json.dump(result, open(result_path, "w"))


if __name__ == "__main__":
    main(*sys.argv[1:])
